//! Pictures, losses, gradients and statistics of a step, against the engine of the processor from the same state.
