// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kvbench {

// Owns the mapping; views into it are valid as long as this object (or the one it was moved to).
class MappedFile {
 public:
  // DataError with the path when the file is absent, unreadable or not a regular file.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* data() const { return data_; }  // nullptr for an empty file
  std::size_t size() const { return size_; }       // bytes
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  // Gives the whole pages inside the range back to the system, for a caller that has its own copy
  // by now. The range stays readable; a later read fetches the pages from the file again.
  void release(const std::byte* begin, std::size_t byte_count) const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvbench
