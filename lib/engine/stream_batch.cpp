// StreamBatch: a step of each stream's session, put together into one forward pass.
#include "engine/stream_batch.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {

StreamBatch::StreamBatch(const Model& model, Backend& backend, std::int64_t n_streams,
                         const MakePolicy& make_policy, const SessionOptions& options)
    : chunk_(options.chunk),
      transformer_(std::make_shared<Transformer>(model, backend, std::max(options.chunk, n_streams),
                                                 options.softmax_off_by_one)) {
  KVB_CHECK(n_streams >= 1, "{} streams", n_streams);
  for (std::int64_t i = 0; i < n_streams; ++i) {
    streams_.emplace_back(model, backend, make_policy(), options, transformer_);
  }
  KVB_CHECK(n_streams == 1 || !streams_.front().policy->traits().recompute_length,
            "a policy that computes each token's window afresh, in {} streams", n_streams);
}

std::size_t StreamBatch::index(std::int64_t stream) const {
  KVB_CHECK(stream >= 0 && stream < size(), "stream {} of {}", stream, size());
  return static_cast<std::size_t>(stream);
}

std::int64_t StreamBatch::tokens_per_turn() const {
  const std::int64_t share = std::max<std::int64_t>(1, chunk_ / size());
  return std::min(streams_.front().session.tokens_per_step(), share);
}

void StreamBatch::feed(std::span<const Turn> turns) {
  if (size() == 1) {
    for (const Turn& turn : turns) session(turn.stream).feed(turn.ids, turn.targets, turn.nll);
    return;
  }
  std::int64_t before = -1;
  for (const Turn& turn : turns) {
    KVB_CHECK(turn.stream > before, "stream {} after {}", turn.stream, before);
    KVB_CHECK(std::ssize(turn.ids) <= tokens_per_turn() && turn.targets.size() <= turn.ids.size() &&
                  turn.nll.size() == turn.targets.size(),
              "a turn of {} ids, {} targets, {} results", turn.ids.size(), turn.targets.size(),
              turn.nll.size());
    before = turn.stream;
    session(turn.stream).feed_sinks();
  }
  steps_.clear();
  for (const Turn& turn : turns) steps_.push_back(session(turn.stream).next_step(turn.ids, 0));
  transformer_->forward(steps_);
  std::int64_t rows = 0;
  for (const Turn& turn : turns) {
    rows += std::ssize(turn.ids);
    session(turn.stream).count_fed(turn.ids.size(), rows - 1);
  }
  score(turns);
}

// One product with the vocabulary, over the rows from the first that has a target to the last;
// between them, id 0 stands for targets that nobody gave.
void StreamBatch::score(std::span<const Turn> turns) {
  targets_.clear();
  std::size_t first = 0;
  std::size_t end = 0;
  for (const Turn& turn : turns) {
    if (!turn.targets.empty()) {
      if (end == 0) first = targets_.size();
      end = targets_.size() + turn.targets.size();
    }
    targets_.insert(targets_.end(), turn.targets.begin(), turn.targets.end());
    targets_.resize(targets_.size() + turn.ids.size() - turn.targets.size(), 0);
  }
  if (end == 0) return;
  nll_.resize(targets_.size());
  transformer_->nll(static_cast<std::int64_t>(first),
                    std::span(targets_).subspan(first, end - first),
                    std::span(nll_).subspan(first, end - first));
  auto row = nll_.begin();
  for (const Turn& turn : turns) {
    std::copy_n(row, turn.targets.size(), turn.nll.begin());
    row += std::ssize(turn.ids);
  }
}

void StreamBatch::last_logits(std::span<float> logits) {
  if (size() == 1) return session(0).last_logits(logits);
  transformer_->logits(0, logits);
}

}  // namespace kvbench
