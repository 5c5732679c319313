#include "train/monitor/zip_archive.h"

#include <limits>

#include "core/files/crc32.h"
#include "core/status/error.h"
#include "train/monitor/wire_message.h"

namespace ds {
namespace {

// PKWARE's APPNOTE.TXT, 4.3.
constexpr uint32_t kFileHead = 0x04034B50, kDirectoryEntry = 0x02014B50, kEnd = 0x06054B50;
constexpr uint16_t kReadableByVersion = 20, kUtf8Names = 1 << 11, kStored = 0;
constexpr uint16_t kFirstOfJanuary1980 = (1 << 5) | 1;  // as a date; nobody asks for the time
constexpr uint32_t kReadableByOwner = 0100644U << 16;

// What the head of a file and its entry in the directory have in common.
std::string described(std::string_view name, std::string_view content) {
  std::string out;
  append_little_endian(out, kReadableByVersion);
  append_little_endian(out, kUtf8Names);
  append_little_endian(out, kStored);
  append_little_endian<uint16_t>(out, 0);  // time
  append_little_endian(out, kFirstOfJanuary1980);
  append_little_endian(out, crc32(content));
  append_little_endian(out, static_cast<uint32_t>(content.size()));
  append_little_endian(out, static_cast<uint32_t>(content.size()));
  append_little_endian(out, static_cast<uint16_t>(name.size()));
  append_little_endian<uint16_t>(out, 0);  // more fields
  return out;
}

}  // namespace

void ZipArchive::add(std::string_view name, std::string_view content) {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  if (content.size() > kMost - files_.size()) {
    throw DataError("zip: the archive comes to more than 4 GiB");
  }
  const auto at = static_cast<uint32_t>(files_.size());
  const std::string description = described(name, content);
  append_little_endian(files_, kFileHead);
  files_.append(description).append(name).append(content);
  append_little_endian(directory_, kDirectoryEntry);
  append_little_endian(directory_, kReadableByVersion);
  directory_ += description;
  append_little_endian<uint16_t>(directory_, 0);  // remark
  append_little_endian<uint16_t>(directory_, 0);  // disk
  append_little_endian<uint16_t>(directory_, 0);  // kind of content
  append_little_endian(directory_, kReadableByOwner);
  append_little_endian(directory_, at);
  directory_ += name;
  ++count_;
}

std::string ZipArchive::finish() {
  const auto directory_at = static_cast<uint32_t>(files_.size());
  std::string out = std::move(files_);
  out += directory_;
  append_little_endian(out, kEnd);
  append_little_endian<uint32_t>(out, 0);  // disks
  append_little_endian(out, count_);
  append_little_endian(out, count_);
  append_little_endian(out, static_cast<uint32_t>(directory_.size()));
  append_little_endian(out, directory_at);
  append_little_endian<uint16_t>(out, 0);  // remark
  return out;
}

}  // namespace ds
