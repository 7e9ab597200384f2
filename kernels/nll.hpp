// The loss without the logits of a whole vocabulary: blocks of logits are folded, one after
// another, into a running log-sum-exp per row.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace kvbench {

// Of one row: log(sum) + maximum is the log-sum-exp of all logits folded so far.
struct FoldedLogits {
  double sum;  // of exp(logit - maximum)
  float maximum;
  float target_logit;  // set by the block that holds the target
};

// Device pointers. Preconditions: 0 <= n_rows < 2^31, width > 0.
struct FoldLogitsParams {
  const float* logits;          // [n_rows, width]: logits of ids first_id .. first_id + width - 1
  const std::int32_t* targets;  // [n_rows]
  FoldedLogits* folded;         // [n_rows]
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t first_id;
  float logit_scale;
  float logit_cap;   // above 0: scaled logits become logit_cap * tanh(logit / logit_cap)
  bool first_block;  // nothing was folded before: overwrite the state
};
void fold_logits(const FoldLogitsParams& params, cudaStream_t stream);

// nll[i] = log-sum-exp - target logit, natural log. Precondition: all blocks were folded.
struct FinishNllParams {
  const FoldedLogits* folded;  // [n_rows]
  double* nll;                 // [n_rows]
  std::int64_t n_rows;
};
void finish_nll(const FinishNllParams& params, cudaStream_t stream);

}  // namespace kvbench
