#include "data/text/record_text.h"

#include <fmt/format.h>

#include "core/status/error.h"
#include "data/text/text_kind.h"

namespace ds {

RecordLayout record_layout(const std::string& path) {
  const std::string ending = ending_of(path);
  if (ending == ".csv") return RecordLayout::kCommas;
  if (ending == ".tsv") return RecordLayout::kTabs;
  if (layout_of(path) == TextLayout::kJsonLines) return RecordLayout::kJsonLines;
  throw Unsupported(
      fmt::format("{}: records are read from JSON lines (.jsonl), .csv and .tsv", path));
}

}  // namespace ds
