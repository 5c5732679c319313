#include "data/tokenizer/text/growth.h"

#include "core/status/error.h"

namespace ds {
namespace {

// A text that grows without end is a file's mistake or malice: no normal form makes one longer than
// eighteen times.
constexpr size_t kGrowth = 64, kAllowed = size_t{1} << 20;
// Known tokenizers have some five steps, each of which writes the text once or twice.
constexpr size_t kWrittenPerByte = 512, kWritten = size_t{16} << 20;

}  // namespace

void require_sane_growth(size_t bytes, size_t before) {
  if (bytes <= kGrowth * before + kAllowed) return;
  throw DataError(fmt::format("tokenizer: the normalizers make more than {} bytes of a text of {}",
                              bytes, before));
}

WritingRoom::WritingRoom(size_t text_bytes)
    : text_bytes_(text_bytes), left_(kWrittenPerByte * text_bytes + kWritten) {}

void WritingRoom::take(size_t bytes) {
  if (bytes > left_) {
    throw DataError(fmt::format(
        "tokenizer: its steps write more than {} bytes for a text of {}: there are too many of "
        "them, or they write too much",
        kWrittenPerByte * text_bytes_ + kWritten, text_bytes_));
  }
  left_ -= bytes;
}

}  // namespace ds
