#include "core/files/crc32.h"

#include <string>

#include "tests/support/catch.h"

namespace ds {
namespace {

// The check values of the catalogue of parametrised CRC algorithms, and of RFC 3720, B.4.
TEST_CASE("checksums have the values that the standards print", "[core]") {
  CHECK(crc32("123456789") == 0xCBF43926);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43);
  CHECK(crc32("") == 0);
}

TEST_CASE("a checksum goes on where one of the bytes before ended", "[core]") {
  CHECK(crc32("6789", crc32("12345")) == crc32("123456789"));
  CHECK(crc32c("6789", crc32c("12345")) == crc32c("123456789"));
}

}  // namespace
}  // namespace ds
