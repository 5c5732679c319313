#include "data/record_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

void RecordSource::read(int64_t offset, std::span<int32_t> out) const {
  for (size_t i = 0; i < out.size();) {
    const int64_t at = offset + narrow<int64_t>(i);
    const int64_t record = at / extents_.numbers, inside = at % extents_.numbers;
    if (record == count()) {
      out[i++] = 0;
      continue;
    }
    const int64_t wanted = std::min(extents_.numbers - inside, narrow<int64_t>(out.size() - i));
    for (int64_t k = inside; k < inside + wanted; ++k) out[i++] = number(record, k);
  }
}

void RecordSource::add_record(int64_t line, Kept kept) {
  if (kept == Kept::kBeginning) cut_.push_back(count());
  lines_.push_back(line);
}

std::vector<std::string> RecordSource::notes() const {
  std::vector<std::string> notes = notes_;
  if (cut_.empty()) return notes;
  notes.push_back(
      fmt::format("{} of {} are longer than {}, {} tokens, and lose their end, the first at {}",
                  cut_.size(), count(), extents_.length.key, extents_.length.tokens,
                  locate(cut_.front() * extents_.numbers)));
  return notes;
}

std::string RecordSource::locate(int64_t token) const {
  const int64_t record = std::min(token / extents_.numbers, count() - 1);
  const auto after = std::ranges::upper_bound(files_, record, {}, &OpenedFile::first);
  if (after == files_.begin() || record < 0) return files_.empty() ? "" : files_.front().path;
  return fmt::format("{}:{}", (after - 1)->path, nth(lines_, record));
}

int64_t room_around(const SampleLength& length, size_t around) {
  const int64_t room = length.tokens - narrow<int64_t>(around);
  if (room > 0) return room;
  throw ConfigError(fmt::format("{}: {}, of which the tokenizer takes {} around a text; give more",
                                length.key, length.tokens, around));
}

}  // namespace ds
