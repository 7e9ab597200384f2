// SHA-256 of bytes and files, as 64 lower-case hex digits (over OpenSSL's libcrypto).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvbench {

// Incremental: update any number of times, then `hex` once.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // Ends the computation; the object can only be destroyed or assigned to afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
// Streams the file; its pages do not stay in memory.
std::string sha256_file(const std::filesystem::path& path);

}  // namespace kvbench
