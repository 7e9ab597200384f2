// The fused loss, CPU against CUDA: blocks of the vocabulary, scaled and capped logits, and what
// must not be lost or made up on the way: -inf and NaN.
#include <limits>

#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

TensorView view_of(const std::vector<float>& values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape};
}

struct LossCase {
  std::int64_t n_rows;
  std::int64_t width;                     // of the hidden states
  std::vector<std::int64_t> block_sizes;  // of the vocabulary
  double logit_scale;
  double logit_cap = 0.0;
};

void check_loss(const LossCase& loss, DType compute, const std::vector<float>& hidden) {
  std::int64_t vocabulary = 0;
  for (const std::int64_t size : loss.block_sizes) vocabulary += size;
  const std::vector<float> head = random_values(vocabulary * loss.width, 6);
  std::vector<std::int32_t> targets;
  for (std::int64_t row = 0; row < loss.n_rows; ++row) {
    targets.push_back(static_cast<std::int32_t>((row * 7 + vocabulary - 1) % vocabulary));
  }
  check_parity(kF32Tolerance, [&](Backend& backend) {
    std::vector<std::unique_ptr<LinearWeight>> owned;
    std::vector<const LinearWeight*> blocks;
    std::int64_t first = 0;
    for (const std::int64_t size : loss.block_sizes) {
      TensorView rows = view_of(head, {size, loss.width});
      rows.data += static_cast<std::size_t>(first * loss.width) * sizeof(float);
      const std::vector<TensorView> parts = {rows};
      owned.push_back(backend.make_linear(parts, {}, compute));
      blocks.push_back(owned.back().get());
      first += size;
    }
    const Buffer x = upload_as(backend, hidden, compute);
    std::vector<double> nll(targets.size(), -1.0);
    backend.nll({.hidden = x.as<void>(),
                 .vocabulary = blocks,
                 .targets = targets.data(),
                 .nll = nll.data(),
                 .n_rows = loss.n_rows,
                 .logit_scale = loss.logit_scale,
                 .logit_cap = loss.logit_cap});
    return std::vector<float>(nll.begin(), nll.end());
  });
}

TEST_CASE("nll: blocks of the vocabulary, ragged; large logits; logit scale") {
  for (const LossCase& loss :
       {LossCase{1, 8, {5}, 1.0}, LossCase{4, 16, {256, 256, 3}, 1.0},
        LossCase{9, 12, {1, 700}, 0.0625}, LossCase{2, 12, {40, 9}, 1.0, 3.0}}) {
    check_loss(loss, DType::f32, random_values(loss.n_rows * loss.width, 5));
    check_loss(loss, DType::f32, random_values(loss.n_rows * loss.width, 5, 60.0f));
  }
}

TEST_CASE("nll: a block of logits that are all minus infinity adds nothing") {
  // Weights of the first block are -inf where the hidden state is positive.
  std::vector<float> head = random_values(6, 8);
  std::fill(head.begin(), head.begin() + 3, -std::numeric_limits<float>::infinity());
  const std::vector<std::int32_t> targets = {4};
  check_parity(kF32Tolerance, [&](Backend& backend) {
    std::vector<std::unique_ptr<LinearWeight>> owned;
    std::vector<const LinearWeight*> blocks;
    for (int block = 0; block < 2; ++block) {
      TensorView rows = view_of(head, {3, 1});
      rows.data += static_cast<std::size_t>(3 * block) * sizeof(float);
      const std::vector<TensorView> parts = {rows};
      owned.push_back(backend.make_linear(parts, {}, DType::f32));
      blocks.push_back(owned.back().get());
    }
    const Buffer x = upload(backend, std::vector<float>{1.0f});
    double nll = -1.0;
    backend.nll({.hidden = x.as<void>(),
                 .vocabulary = blocks,
                 .targets = targets.data(),
                 .nll = &nll,
                 .n_rows = 1});
    return std::vector<float>{static_cast<float>(nll)};
  });
}

TEST_CASE("nll: a NaN among the logits reaches the loss") {
  for (const int nan_at : {0, 4}) {
    std::vector<float> head(6, -std::numeric_limits<float>::infinity());
    head[static_cast<std::size_t>(nan_at)] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<std::int32_t> targets = {1};
    for_each_thread_order([&] {
      CudaBackend backend(1);
      const std::vector<TensorView> parts = {view_of(head, {6, 1})};
      const auto weight = backend.make_linear(parts, {}, DType::f32);
      const LinearWeight* const blocks[] = {weight.get()};
      const Buffer x = upload(backend, std::vector<float>{1.0f});
      double nll = 0.0;
      backend.nll({.hidden = x.as<void>(),
                   .vocabulary = blocks,
                   .targets = targets.data(),
                   .nll = &nll,
                   .n_rows = 1});
      CHECK(std::isnan(nll));
    });
  }
}

}  // namespace
}  // namespace kvbench::test
