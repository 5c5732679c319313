// Zip archives that are written: what the reader finds in them again, and their exact bytes.
#include "core/files/zip_writer.h"

#include "core/files/zip_reader.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string content(FileSystem& files, const std::string& path) {
  return files.read_text(path, int64_t{1} << 30);
}

std::string written(const std::vector<std::pair<std::string, std::string>>& entries) {
  MemoryFileSystem files;
  ZipWriter zip(files, "/a.zip");
  for (const auto& [name, text] : entries) zip.add(name, bytes_in(text));
  zip.finish();
  return content(files, "/a.zip");
}

}  // namespace

TEST_CASE("what is written into a zip archive is read from it, at multiples of 64", "[core]") {
  // Names so long that a padding of fewer than four bytes would be needed are among these.
  std::vector<std::pair<std::string, std::string>> entries;
  for (size_t i = 0; i < 70; ++i) {
    entries.emplace_back(std::string(i + 1, 'n'),
                         std::string(i % 7, static_cast<char>('a' + i % 26)));
  }
  const std::string archive = written(entries);
  const ZipReader reader("/a.zip", bytes_in(archive));
  REQUIRE(reader.entries().size() == entries.size());
  for (const auto& [name, text] : entries) {
    const ZipEntry* entry = reader.find(name);
    REQUIRE(entry != nullptr);
    CHECK(entry->offset % 64 == 0);
    const auto stored = reader.stored(*entry);
    CHECK(std::string(reinterpret_cast<const char*>(stored.data()), stored.size()) == text);
    CHECK(reader.read(*entry, 100).size() == text.size());  // its checksum is right
  }
  CHECK(written(entries) == archive);
}

TEST_CASE("an archive of more entries than 16 bits count has a directory of zip64", "[core]") {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 0x10001; ++i) entries.emplace_back(std::to_string(i), "");
  const std::string archive = written(entries);
  const ZipReader reader("/a.zip", bytes_in(archive));
  CHECK(reader.entries().size() == entries.size());
  CHECK(reader.find("65536") != nullptr);
}

TEST_CASE("an archive without entries is one", "[core]") {
  const std::string archive = written({});
  CHECK(archive.size() == 22);
  CHECK(ZipReader("/a.zip", bytes_in(archive)).entries().empty());
}

TEST_CASE("what is not finished is no archive, and what is there is not written over", "[core]") {
  MemoryFileSystem files;
  {
    ZipWriter zip(files, "/a.zip");
    zip.add("one", bytes_in("first"));
  }
  const std::string left = content(files, "/a.zip");
  CHECK_THROWS_AS(ZipReader("/a.zip", bytes_in(left)), DataError);
  CHECK_THROWS_AS(ZipWriter(files, "/a.zip"), IoError);
  MemoryFileSystem full(100);
  ZipWriter zip(full, "/b.zip");
  CHECK_THROWS_AS(zip.add("one", bytes_in(std::string(200, 'x'))), DiskFull);
}

}  // namespace ds
