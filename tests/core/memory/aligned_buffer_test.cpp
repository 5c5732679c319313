// Memory for transfers past the page cache: where it begins, on what pages it lies, whose it is.
#include "core/memory/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "core/files/file.h"
#include "core/memory/resource.h"
#include "core/values/index.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

bool begins_at_multiple_of(const AlignedBuffer& buffer, size_t unit) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % unit == 0;
}

// Bytes of a kind, "AnonHugePages" for example, in the mapping that `data` lies in.
int64_t bytes_of_mapping(const std::byte* data, const std::string& kind) {
  std::ifstream smaps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(data);
  bool is_ours = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      is_ours = begin <= address && address < end;
    } else if (is_ours && line.starts_with(kind + ":")) {
      return 1024 * std::stoll(line.substr(kind.size() + 1));
    }
  }
  return -1;
}

bool offers_huge_pages() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(setting, text);
  return text.find("[always]") != std::string::npos || text.find("[madvise]") != std::string::npos;
}

TEST_CASE("a buffer begins where every disk takes it, a large one on a huge page", "[core]") {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}, kHugePage - 1}) {
    const AlignedBuffer buffer(bytes);
    CHECK(begins_at_multiple_of(buffer, to_size(kUncachedAlignment)));
    CHECK(buffer.bytes().size() == bytes);
    std::ranges::fill(buffer.bytes(), std::byte{1});
  }
  CHECK(begins_at_multiple_of(AlignedBuffer(kHugePage), kHugePage));
  CHECK(AlignedBuffer().bytes().empty());
  CHECK(AlignedBuffer(0).bytes().empty());
}

TEST_CASE("a large buffer lies on huge pages where the system has them", "[core]") {
  if (!offers_huge_pages()) return;  // the kernel's setting, which is not ours
  const AlignedBuffer buffer(4 * kHugePage);
  std::ranges::fill(buffer.bytes(), std::byte{1});
  CHECK(bytes_of_mapping(buffer.data(), "AnonHugePages") > 0);
}

TEST_CASE("a buffer moves with its owner", "[core]") {
  AlignedBuffer first(5000);
  std::byte* const data = first.data();
  AlignedBuffer second(std::move(first));
  CHECK(second.data() == data);
  AlignedBuffer third(100);
  third = std::move(second);
  CHECK(third.data() == data);
  CHECK(third.bytes().size() == 5000);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // there mlock does nothing
TEST_CASE("a locked buffer is locked until it goes", "[core]") {
  AlignedBuffer buffer(kHugePage);
  if (buffer.lock() != 0) return;  // the machine's limit is lower
  const std::byte* const data = buffer.data();
  CHECK(bytes_of_mapping(data, "Locked") >= static_cast<int64_t>(kHugePage));
  buffer = AlignedBuffer();
  CHECK(bytes_of_mapping(data, "Locked") <= 0);
}
#endif

}  // namespace
}  // namespace ds
