// Zip archives for tests, byte by byte, so that any of their numbers can be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/crc32.h"

namespace ds::testing {

struct ZipItem {
  std::string name;
  std::string stored;  // as it is in the archive
  uint16_t method = 0;
  uint16_t flags = 0;
  int64_t bytes = -1;         // what the directory says; -1: what is stored
  int64_t head = -1;          // where it says that the head is; -1: where it is
  std::string inflated = {};  // for the checksum of a deflated entry
};

inline void append_number(std::string& to, uint64_t value, int bytes) {
  for (int at = 0; at < bytes; ++at, value >>= 8) to.push_back(static_cast<char>(value & 0xFF));
}

enum class ZipWidth { k32, k64 };

class ZipBytes {
 public:
  explicit ZipBytes(const std::vector<ZipItem>& items, ZipWidth width = ZipWidth::k32) {
    std::string directory;
    for (const ZipItem& item : items) add(item, width, directory);
    const size_t begin = text_.size();
    text_ += directory;
    const size_t end = text_.size();
    if (width == ZipWidth::k64) {
      append_number(text_, 0x06064b50, 4);
      append_number(text_, 44, 8);
      append_number(text_, 45 | 45 << 16, 4);
      append_number(text_, 0, 8);
      append_number(text_, items.size(), 8);
      append_number(text_, items.size(), 8);
      append_number(text_, directory.size(), 8);
      append_number(text_, begin, 8);
      append_number(text_, 0x07064b50, 4);
      append_number(text_, 0, 4);
      append_number(text_, end, 8);
      append_number(text_, 1, 4);
    }
    const bool wide = width == ZipWidth::k64;
    append_number(text_, 0x06054b50, 4);
    append_number(text_, 0, 4);
    append_number(text_, wide ? 0xFFFF : items.size(), 2);
    append_number(text_, wide ? 0xFFFF : items.size(), 2);
    append_number(text_, wide ? 0xFFFFFFFF : directory.size(), 4);
    append_number(text_, wide ? 0xFFFFFFFF : begin, 4);
    append_number(text_, 0, 2);
  }

  const std::string& text() const { return text_; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text_)); }

 private:
  void add(const ZipItem& item, ZipWidth width, std::string& directory) {
    const size_t head = text_.size();
    const auto bytes = item.bytes < 0 ? item.stored.size() : static_cast<uint64_t>(item.bytes);
    const uint64_t place = item.head < 0 ? head : static_cast<uint64_t>(item.head);
    const bool wide = width == ZipWidth::k64;
    const std::string& content = item.method == 0 ? item.stored : item.inflated;
    std::string both;  // what head and directory have alike
    append_number(both, 20, 2);
    append_number(both, item.flags, 2);
    append_number(both, item.method, 2);
    append_number(both, 0, 4);
    append_number(both, crc32(content), 4);
    append_number(both, wide ? 0xFFFFFFFF : item.stored.size(), 4);
    append_number(both, wide ? 0xFFFFFFFF : bytes, 4);
    append_number(both, item.name.size(), 2);
    append_number(text_, 0x04034b50, 4);
    text_ += both;
    append_number(text_, 0, 2);
    text_ += item.name + item.stored;
    append_number(directory, 0x02014b50, 4);
    append_number(directory, 20, 2);
    directory += both;
    append_number(directory, wide ? 28 : 0, 2);
    append_number(directory, 0, 2 + 2 + 2 + 4);
    append_number(directory, wide ? 0xFFFFFFFF : place, 4);
    directory += item.name;
    if (!wide) return;
    append_number(directory, 1, 2);
    append_number(directory, 24, 2);
    append_number(directory, bytes, 8);
    append_number(directory, item.stored.size(), 8);
    append_number(directory, place, 8);
  }

  std::string text_;
};

}  // namespace ds::testing
