// Attention of one token, as decoding has it: the entries of each head are cut into parts of a
// fixed size, which threads share, and the parts are joined in order, whatever the number of
// threads.
#pragma once

#include <vector>

#include "backend/cpu/attention.hpp"

namespace kvbench {

// Whether these arguments are taken here: one token, a head size of whole vectors, no ALiBi.
bool decodes(const AttentionArgs& args);

// `parts` is working memory that grows to the longest call and is then reused.
void cpu_attention_decode(const AttentionArgs& args, std::vector<AttentionScratch>& scratch,
                          std::vector<float>& parts);

// The weights of one token from its log-sum-exp; see AttentionWeightsArgs.
void cpu_attention_weights_decode(const AttentionWeightsArgs& args,
                                  std::vector<AttentionScratch>& scratch);

}  // namespace kvbench
