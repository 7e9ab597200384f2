// Definitions of report/durable_file.hpp, over POSIX files.
#include "report/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/error.hpp"

namespace kvbench {
namespace {

std::string last_error() {
  return std::generic_category().message(errno);
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Makes a rename or a new name in the folder durable. Some file systems refuse to sync a folder;
// the file itself is on disk by then.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  // The rename would put a file in the place of a device such as /dev/null, for everyone.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    config_error("{}: is a folder, a device or a pipe; expected a file", path.string());
  }
  const std::filesystem::path temporary =
      folder_of(path) / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                                S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (descriptor < 0) device_error("{}: cannot create: {}", temporary.string(), last_error());
  bool good = write_all(descriptor, content) && ::fsync(descriptor) == 0;
  std::string reason = good ? "" : last_error();
  if (::close(descriptor) != 0 && good) {
    good = false;
    reason = last_error();
  }
  if (good && ::rename(temporary.c_str(), path.c_str()) != 0) {
    good = false;
    reason = last_error();
  }
  if (!good) {
    ::unlink(temporary.c_str());
    device_error("{}: cannot write {} bytes: {}", path.string(), content.size(), reason);
  }
  sync_folder(folder_of(path));
}

LockedLineFile::LockedLineFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC,
                       S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (descriptor_ < 0) fail("open");
  while (::flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    ::close(descriptor_);
    errno = reason;
    fail("lock");
  }
}

LockedLineFile::~LockedLineFile() {
  ::close(descriptor_);
}

void LockedLineFile::fail(const char* action) const {
  device_error("{}: cannot {}: {}", path_.string(), action, last_error());
}

std::string LockedLineFile::read_all() const {
  std::string content;
  std::string buffer(1 << 16, '\0');
  for (;;) {
    const ssize_t count =
        ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(content.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read");
    if (count == 0) return content;
    content.append(buffer, 0, static_cast<std::size_t>(count));
  }
}

void LockedLineFile::truncate(std::size_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("truncate");
}

void LockedLineFile::append(std::string_view text) {
  if (!write_all(descriptor_, text) || ::fsync(descriptor_) != 0) fail("append");
  sync_folder(folder_of(path_));
}

}  // namespace kvbench
