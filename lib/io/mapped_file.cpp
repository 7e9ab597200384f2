// mmap, and giving pages back with madvise.
#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

// Longest path shown in a message; PATH_MAX on Linux.
constexpr std::size_t kPathBytes = 4096;

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const std::string shown = printable(path.native(), kPathBytes);
  // O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) data_error("{}: cannot open: {}", shown, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    data_error("{}: cannot read its size: {}", shown, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) data_error("{}: not a regular file", shown);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    data_error("{}: cannot map {} bytes: {}", shown, size, std::strerror(errno));
  }
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

void MappedFile::release(const std::byte* begin, std::size_t byte_count) const {
  if (byte_count == 0) return;
  const std::byte* end = data_ + size_;
  KVB_CHECK(begin >= data_ && begin <= end && byte_count <= static_cast<std::size_t>(end - begin),
            "a range of {} bytes is outside {}", byte_count, path_.native());
  // Offsets will do: the mapping itself begins on a page.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(begin - data_);
  const std::size_t first = (offset + page - 1) / page * page;
  std::size_t last = offset + byte_count;
  // The file's last page holds no one else's bytes, so it may go whole.
  if (last != size_) last = last / page * page;
  if (first >= last) return;
  // Only advice: when the system refuses, the pages merely stay.
  ::madvise(const_cast<std::byte*>(data_ + first), last - first, MADV_DONTNEED);
}

}  // namespace kvbench
