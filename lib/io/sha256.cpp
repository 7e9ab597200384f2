// SHA-256 through OpenSSL's EVP interface.
#include "io/sha256.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "io/mapped_file.hpp"

namespace kvbench {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  KVB_CHECK(state_->context != nullptr, "no memory for a hash context");
  KVB_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
            "libcrypto offers no SHA-256");
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  KVB_CHECK(state_ != nullptr, "the hash has been ended");
  KVB_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1,
            "SHA-256 update failed");
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  KVB_CHECK(state_ != nullptr, "the hash has been ended");
  KVB_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1,
            "SHA-256 failed to end");
  state_.reset();
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

std::string sha256_file(const std::filesystem::path& path) {
  constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
  const MappedFile file = MappedFile::open(path);
  Sha256 hash;
  for (std::size_t at = 0; at < file.size(); at += kChunkBytes) {
    const auto chunk = file.bytes().subspan(at, std::min(kChunkBytes, file.size() - at));
    hash.update(chunk);
    file.release(chunk.data(), chunk.size());
  }
  return hash.hex();
}

}  // namespace kvbench
