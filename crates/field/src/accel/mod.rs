//! Evaluation whose cost follows the pairs that matter.
