// Checks of a safetensors header. The rules are the format's, and stricter where readers are
// known to disagree: duplicate names, a leading space and a byte order mark are errors.
#include "io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/json_file.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

constexpr std::uint64_t kPrefixBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
// Arrays in a header are shapes and offset pairs; this bounds what a hostile one can allocate.
constexpr std::size_t kMaxRank = 64;

// One tensor's place in the data part, [begin, end) in bytes.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  Range range;
};

// Checks the length prefix and returns the header text.
std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    data_error("{}: this is a git-lfs pointer, not the weights; fetch them with `git lfs pull`",
               where);
  }
  if (file.size() < kPrefixBytes) {
    data_error("{}: not a safetensors file: it has {} bytes, the header length alone takes {}",
               where, file.size(), kPrefixBytes);
  }
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeaderBytes) {
    data_error("{}: header length {} is above the limit of {}; the file has {} bytes", where,
               length, kMaxHeaderBytes, file.size());
  }
  if (length > file.size() - kPrefixBytes) {
    data_error("{}: header length {} does not fit into the file, which has {} bytes", where, length,
               file.size());
  }
  const std::string_view header = text.substr(kPrefixBytes, length);
  if (!header.starts_with('{')) {
    data_error("{}: the header must start with {{, found \"{}\"", where, printable(header, 8));
  }
  return header;
}

// The member `key` of a tensor's entry.
const json& member(const json& fields, const char* key, const std::string& tensor,
                   const std::string& where) {
  const auto found = fields.find(key);
  if (found == fields.end()) data_error("{}: tensor {} has no {}", where, tensor, key);
  return *found;
}

// An array of unsigned integers that fit into 63 bits.
std::vector<std::uint64_t> unsigned_array(const json& value, const char* key,
                                          const std::string& tensor, const std::string& where) {
  std::vector<std::uint64_t> numbers;
  bool valid = value.is_array();
  for (std::size_t i = 0; valid && i < value.size(); ++i) {
    valid = value[i].is_number_unsigned();
    if (valid) numbers.push_back(value[i].get<std::uint64_t>());
  }
  if (!valid) {
    data_error("{}: {} of tensor {} must be an array of non-negative integers, found {}", where,
               key, tensor, printable(value.dump()));
  }
  return numbers;
}

// Bytes of a tensor; nothing when the product does not fit into 63 bits. Extents of zero do not
// hide an overflow of the others, so that element counts can be multiplied freely later.
std::optional<std::uint64_t> checked_bytes(const std::vector<std::uint64_t>& shape, DType dtype) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = dtype_size(dtype);
  bool empty = false;
  for (const std::uint64_t extent : shape) {
    empty = empty || extent == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(extent, 1);
    if (factor > kMost / bytes) return std::nullopt;
    bytes *= factor;
  }
  return empty ? 0 : bytes;
}

Entry parse_entry(const std::string& raw_name, const json& fields, const std::string& where) {
  const std::string name = printable(raw_name);
  if (!fields.is_object()) data_error("{}: entry of tensor {} is not an object", where, name);
  const json& dtype_text = member(fields, "dtype", name, where);
  if (!dtype_text.is_string()) data_error("{}: dtype of tensor {} is not a string", where, name);
  const auto dtype = dtype_from_name(*dtype_text.get_ptr<const std::string*>());
  if (!dtype) {
    data_error("{}: unknown dtype {} of tensor {}", where,
               printable(*dtype_text.get_ptr<const std::string*>()), name);
  }
  const auto shape = unsigned_array(member(fields, "shape", name, where), "shape", name, where);
  const auto offsets =
      unsigned_array(member(fields, "data_offsets", name, where), "data_offsets", name, where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    data_error("{}: data_offsets of tensor {} must be [begin, end] with begin <= end, found {}",
               where, name, fields["data_offsets"].dump());
  }
  const auto needed = checked_bytes(shape, *dtype);
  if (!needed) data_error("{}: shape overflows: tensor {}", where, name);
  if (*needed != offsets[1] - offsets[0]) {
    data_error("{}: tensor {} needs {} bytes, has {}", where, name, *needed,
               offsets[1] - offsets[0]);
  }
  return {raw_name, *dtype, Shape(shape.begin(), shape.end()), {offsets[0], offsets[1]}};
}

std::map<std::string, std::string> parse_metadata(const json& fields, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!fields.is_object()) data_error("{}: __metadata__ is not an object", where);
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) {
      data_error("{}: __metadata__ may hold strings only; {} is not one", where, printable(key));
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

void warn_unknown_fields(const std::string& name, const json& fields, const std::string& where,
                         std::vector<std::string>& warnings) {
  for (const auto& [key, value] : fields.items()) {
    if (key == "dtype" || key == "shape" || key == "data_offsets") continue;
    warnings.push_back(fmt::format("{}: unknown field {} of tensor {} is ignored", where,
                                   printable(key), printable(name)));
  }
}

// The tensors must cover the data part once, without gap or overlap.
void sort_and_check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes,
                             const std::string& where) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.range.begin, a.range.end) < std::pair(b.range.begin, b.range.end);
  });
  std::uint64_t covered = 0;
  const Entry* previous = nullptr;
  for (const Entry& entry : entries) {
    const std::string name = printable(entry.name);
    if (entry.range.begin < covered) {
      data_error("{}: tensor {} at {}..{} overlaps tensor {} at {}..{}", where, name,
                 entry.range.begin, entry.range.end, printable(previous->name),
                 previous->range.begin, previous->range.end);
    }
    if (entry.range.begin > covered) {
      data_error("{}: gap before `{}` at {}..{}", where, name, covered, entry.range.begin);
    }
    covered = entry.range.end;
    previous = &entry;
  }
  if (covered > data_bytes) {
    data_error("{}: the header promises {} bytes of data, file has {}; was it cut short?", where,
               covered, data_bytes);
  }
  if (covered < data_bytes) {
    data_error("{}: {} bytes after the last tensor", where, data_bytes - covered);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           const std::string& where) {
  const std::string_view text = header_text(file, where);
  JsonOptions options;
  options.max_array_length = kMaxRank;
  const json document = parse_json(text, where + ": header", options);
  SafetensorsHeader header;
  std::vector<Entry> entries;
  for (const auto& [name, fields] : document.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(fields, where);
      continue;
    }
    entries.push_back(parse_entry(name, fields, where));
    warn_unknown_fields(name, fields, where, header.warnings);
  }
  const std::span<const std::byte> data = file.subspan(kPrefixBytes + text.size());
  sort_and_check_coverage(entries, data.size(), where);
  header.tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    TensorView view{data.data() + entry.range.begin, entry.dtype, std::move(entry.shape)};
    header.tensors.push_back({std::move(entry.name), std::move(view)});
  }
  return header;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  for (const NamedTensor& tensor : header_.tensors) by_name_.emplace(tensor.name, &tensor.view);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path);
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), path.string());
  return SafetensorsFile(std::move(file), std::move(header));
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace kvbench
