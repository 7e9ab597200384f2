// The made checkpoint and the book: tensor bytes and token ids as the references had them.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/json_file.hpp"
#include "io/mapped_file.hpp"
#include "io/sha256.hpp"
#include "tests/golden/smollm2.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

std::string tensor_sha256(const Checkpoint& checkpoint, const std::string& name) {
  const TensorView& tensor = checkpoint.require(name);
  return sha256_hex(std::span<const std::byte>(tensor.data, tensor.byte_count()));
}

// Two of them (q_proj, k_proj) had their rows re-ordered when the file was made.
TEST_CASE("SmolLM2: tensors read from the checkpoint have the reference's bytes") {
  const Checkpoint checkpoint = Checkpoint::open(test::smollm2_directory());
  const std::map<std::string, std::string> pinned = {
      {"model.embed_tokens.weight",
       "0c8d76d0178f771e989a41b5965b452b7ccc0ef6c36d3d73b77e643dbe23264b"},
      {"model.layers.11.self_attn.q_proj.weight",
       "d70e7c44fa2c808ae41d9df418bed7411e1d74cbf9f571e39c9015dd32273f20"},
      {"model.layers.29.self_attn.k_proj.weight",
       "1a30db632e75f91a7b7ecde24f8d48e078e38904ea3c4f102cdecffd4b60d21f"},
      {"model.layers.14.mlp.down_proj.weight",
       "98ff9ff30063f456e87324aa68bc97e9daf0b08f8bde80e17f3b45c711202d9d"},
      {"model.norm.weight", "b1c3b88d13d30d192c39ca32dfc07aa9f333844fccae2e5b34d3f3572dd6c5f4"}};
  for (const auto& [name, sha256] : pinned) {
    CAPTURE(name);
    CHECK(tensor_sha256(checkpoint, name) == sha256);
  }
  CHECK(checkpoint.names().size() == 272);
}

TEST_CASE("SmolLM2: every tensor is the one its manifest lists") {
  const Checkpoint checkpoint = Checkpoint::open(test::smollm2_directory());
  const nlohmann::json manifest = read_json_file(std::filesystem::path(KVBENCH_SOURCE_DIR) /
                                                 "datasets/models/smollm2-135m-instruct.json");
  for (const auto& [name, sha256] : manifest["tensors"].items()) {
    CAPTURE(name);
    CHECK(tensor_sha256(checkpoint, name) == sha256.get<std::string>());
  }
}

TEST_CASE("Emma is 221850 tokens, each of them the reference's") {
  const auto book = test::cached_file("books/janeausten/emma.txt");
  const auto tokenizer = Tokenizer::load(test::smollm2_directory());
  const MappedFile file = MappedFile::open(book);
  const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  REQUIRE(ids.size() == 221850);
  CHECK(std::vector<std::int32_t>(ids.begin(), ids.begin() + 5) ==
        std::vector<std::int32_t>{3709, 7227, 198, 198, 3087});
  CHECK(std::vector<std::int32_t>(ids.end() - 5, ids.end()) ==
        std::vector<std::int32_t>{198, 54, 2113, 2721, 198});
  // Of the ids as 32-bit little-endian integers.
  CHECK(sha256_hex(std::as_bytes(std::span<const std::int32_t>(ids))) ==
        "2694cdf2866d769307edb867ca7bf1fbf5c4aa953879405c19bc62214c8f4d42");
}

}  // namespace
}  // namespace kvbench
