// Files that survive a crash: written whole or not at all, on disk when the call returns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvbench {

// Replaces `path` by `content`: temporary file beside it, fsync, rename, fsync of the folder.
// Throws DeviceError with the system's reason, and ConfigError where `path` is there and no regular
// file (nor a link to one); `path` is then as it was.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// A file of lines, open for appending, locked against other processes while this object lives.
class LockedLineFile {
 public:
  // Creates the file where it is missing. Throws DeviceError.
  explicit LockedLineFile(const std::filesystem::path& path);
  ~LockedLineFile();
  LockedLineFile(const LockedLineFile&) = delete;
  LockedLineFile& operator=(const LockedLineFile&) = delete;

  std::string read_all() const;
  void truncate(std::size_t bytes);
  // Appends and syncs.
  void append(std::string_view text);

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace kvbench
