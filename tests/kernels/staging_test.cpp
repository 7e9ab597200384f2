// Staging: arrays arrive as they were filled, however many are under way, and larger than a half.
#include "backend/cuda/staging.hpp"

#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

TEST_CASE("staged arrays reach the device unchanged while the host goes on filling") {
  for_each_thread_order([] {
    CudaStream stream;
    Staging staging(stream.get());
    constexpr std::int64_t kArrays = 40;
    constexpr std::int64_t kLength = 7001;  // 40 arrays of 28 KB pass through halves of 256 KB
    Buffer gathered = device_buffer(kArrays * kLength * sizeof(std::int32_t));
    for (std::int64_t array = 0; array < kArrays; ++array) {
      Staging::Block block = staging.open(kLength * sizeof(std::int32_t) + Staging::kArrayPadding);
      auto* values = block.add<std::int32_t>(kLength);
      for (std::int64_t i = 0; i < kLength; ++i) {
        values[i] = static_cast<std::int32_t>(array * kLength + i);
      }
      block.send();
      check_cuda(
          cudaMemcpyAsync(gathered.as<std::int32_t>() + array * kLength, block.on_device(values),
                          kLength * sizeof(std::int32_t), cudaMemcpyDeviceToDevice, stream.get()),
          "copy");
    }
    std::vector<std::int32_t> found(kArrays * kLength);
    check_cuda(cudaMemcpyAsync(found.data(), gathered.as<void>(), gathered.bytes(),
                               cudaMemcpyDeviceToHost, stream.get()),
               "copy");
    stream.synchronize();
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i] == static_cast<std::int32_t>(i));
    }
  });
}

TEST_CASE("an array larger than staging memory makes it grow") {
  for_each_thread_order([] {
    CudaStream stream;
    Staging staging(stream.get());
    constexpr std::int64_t kLength = 1 << 20;
    Staging::Block block = staging.open(kLength + Staging::kArrayPadding);
    auto* bytes = block.add<unsigned char>(kLength);
    std::fill_n(bytes, kLength, static_cast<unsigned char>(7));
    block.send();
    std::vector<unsigned char> found(kLength);
    check_cuda(cudaMemcpyAsync(found.data(), block.on_device(bytes), found.size(),
                               cudaMemcpyDeviceToHost, stream.get()),
               "copy");
    stream.synchronize();
    CHECK(found == std::vector<unsigned char>(kLength, 7));
  });
}

}  // namespace
}  // namespace kvbench::test
