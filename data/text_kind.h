// What the first bytes of a data file say it is (pure). A file is text unless something speaks
// against it, and what is no text is refused with the reason: never trained on as if it were.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

enum class Compression { kNone, kGzip, kZstd };
Compression compression_of(std::string_view head);

enum class TextLayout { kPlain, kJsonLines };
// By the file's name without .gz, .zst and the like: .jsonl, .ndjson and .json hold JSON lines.
TextLayout layout_of(std::string_view path);

// Throws DataError, or Unsupported naming the build option that is missing, if `sample` is no text:
// a known format, NUL bytes, or invalid UTF-8 in large part (a few bytes of other encodings are let
// through, and so is a cut at both ends). `where` begins the message; `at` tells whether the sample
// begins the file.
enum class SampleFrom { kBeginning, kInside };
void require_text(std::string_view sample, SampleFrom at, const std::string& where);

}  // namespace ds
