#include "core/files/zip_writer.h"

#include <string_view>

#include "core/files/crc32.h"
#include "core/files/zip_format.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds {
namespace {

using namespace zip_format;

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kExtraPadding = 0x4246;  // of torch's writer; readers pass over it
constexpr uint64_t kExtraHead = 4;          // a kind and a length
constexpr uint16_t kUtf8Names = 0x0800;
constexpr uint16_t kFirstDay = (1 << 5) | 1;  // 1980-01-01
constexpr uint16_t kPlainVersion = 20, kVersion64 = 45;

// The parts of a header, in the order that the format has them.
class HeaderText {
 public:
  template <class T>
  HeaderText& number(T value) {
    append_little_endian(text_, value);
    return *this;
  }
  // A length or a place of 32 bits, which says where it is too large that zip64 has it.
  HeaderText& wide(uint64_t value) {
    return number(value < kIn64Wide ? static_cast<uint32_t>(value) : kIn64Wide);
  }
  HeaderText& text(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& all() const { return text_; }

 private:
  std::string text_;
};

bool is_wide(uint64_t value) { return value >= kIn64Wide; }

// The field that has the numbers which do not fit; empty, if all do.
std::string extra64(std::span<const uint64_t> numbers) {
  if (numbers.empty()) return {};
  HeaderText out;
  out.number(kExtra64).number(narrow<uint16_t>(numbers.size() * sizeof(uint64_t)));
  for (const uint64_t number : numbers) out.number(number);
  return out.all();
}

std::string padding(uint64_t begin) {
  uint64_t missing = (kAlignment - begin % kAlignment) % kAlignment;
  if (missing == 0) return {};
  if (missing < kExtraHead) missing += kAlignment;
  HeaderText out;
  out.number(kExtraPadding).number(narrow<uint16_t>(missing - kExtraHead));
  return out.all() + std::string(to_size(missing - kExtraHead), '\0');
}

// What local headers and the directory say alike.
void put_common(HeaderText& out, bool is_64, uint32_t crc, uint64_t bytes) {
  out.number(is_64 ? kVersion64 : kPlainVersion).number(kUtf8Names).number(uint16_t{0});
  out.number(uint16_t{0}).number(kFirstDay).number(crc).wide(bytes).wide(bytes);
}

}  // namespace

ZipWriter::ZipWriter(FileSystem& files, const std::string& path) : file_(files.create(path)) {}

void ZipWriter::put(std::string_view bytes) {
  file_->write(narrow<int64_t>(at_), std::as_bytes(std::span(bytes)));
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> content) {
  const std::string_view bytes(reinterpret_cast<const char*>(content.data()), content.size());
  const Entry entry{name, crc32(bytes), bytes.size(), at_};
  std::vector<uint64_t> large;
  if (is_wide(entry.bytes)) large = {entry.bytes, entry.bytes};
  std::string extra = extra64(large);
  extra += padding(at_ + kLocalBytes + name.size() + extra.size());
  HeaderText head;
  head.number(kLocalSignature);
  put_common(head, !large.empty(), entry.crc, entry.bytes);
  head.number(narrow<uint16_t>(name.size())).number(narrow<uint16_t>(extra.size()));
  put(head.text(name).text(extra).all());
  put(bytes);
  entries_.push_back(entry);
}

void ZipWriter::put_directory() {
  for (const Entry& entry : entries_) {
    std::vector<uint64_t> large;
    if (is_wide(entry.bytes)) large = {entry.bytes, entry.bytes};
    if (is_wide(entry.at)) large.push_back(entry.at);
    const std::string extra = extra64(large);
    HeaderText head;
    head.number(kCentralSignature).number(large.empty() ? kPlainVersion : kVersion64);
    put_common(head, !large.empty(), entry.crc, entry.bytes);
    head.number(narrow<uint16_t>(entry.name.size())).number(narrow<uint16_t>(extra.size()));
    // No comment, the first disk, no attributes.
    head.number(uint16_t{0}).number(uint16_t{0}).number(uint16_t{0}).number(uint32_t{0});
    put(head.wide(entry.at).text(entry.name).text(extra).all());
  }
}

void ZipWriter::finish() {
  const uint64_t begin = at_;
  put_directory();
  const uint64_t bytes = at_ - begin;
  const uint64_t count = entries_.size();
  HeaderText end;
  if (is_wide(begin) || is_wide(bytes) || count >= kIn64) {
    end.number(kEnd64Signature).number(uint64_t{kEnd64Bytes - 12});  // what follows this number
    end.number(kVersion64).number(kVersion64).number(uint32_t{0}).number(uint32_t{0});
    end.number(count).number(count).number(bytes).number(begin);
    end.number(kLocator64Signature).number(uint32_t{0}).number(at_).number(uint32_t{1});
  }
  const auto short_count = static_cast<uint16_t>(count < kIn64 ? count : kIn64);
  end.number(kEndSignature).number(uint16_t{0}).number(uint16_t{0}).number(short_count);
  end.number(short_count).wide(bytes).wide(begin).number(uint16_t{0});
  put(end.all());
  file_->sync();
}

}  // namespace ds
