// A zip archive of a few files that are small or do not shrink: stored, not compressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

class ZipArchive {
 public:
  // DataError where it comes to more than 4 GiB, which the format has no place for.
  void add(std::string_view name, std::string_view content);
  std::string finish();  // all of it

 private:
  std::string files_;      // with their heads
  std::string directory_;  // what lies where
  uint16_t count_ = 0;
};

}  // namespace ds
