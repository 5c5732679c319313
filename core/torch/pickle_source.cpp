#include "core/torch/pickle_source.h"

#include <fmt/format.h>

#include "core/status/error.h"

namespace ds {

void PickleSource::refuse(int64_t at, const std::string& defect) const {
  throw DataError(fmt::format("{}: byte {} of {}: {}", path, at,
                              entry.empty() ? "the file" : "its entry " + quoted_of_file(entry),
                              defect));
}

std::string quoted_of_file(std::string_view text) {
  constexpr size_t kMost = 120;
  std::string quoted = "'";
  for (const char letter : text.substr(0, kMost)) {
    const bool printable = letter >= ' ' && letter <= '~';
    quoted += printable ? letter : '?';
  }
  return quoted + (text.size() > kMost ? "...'" : "'");
}

}  // namespace ds
