//! The state of a fit as a safetensors file, and back.
