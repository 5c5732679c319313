// What the first bytes of a data file say it is (pure). A file is text unless something speaks
// against it, and what is no text is refused with the reason: never trained on as if it were.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/text/byte_order_mark.h"
#include "core/text/utf8.h"

namespace ds {

enum class Compression { kNone, kGzip, kZstd };
Compression compression_of(std::string_view head);

char ascii_lower(char c);  // the small letter of a capital one, else the character itself

bool is_blank(std::string_view line);  // nothing but spaces, tabs and line ends

// The last ending of the file's name without .gz, .zst and the like, in small letters: ".jsonl";
// empty where it has none.
std::string ending_of(std::string_view path);
enum class TextLayout { kPlain, kJsonLines };
// Returns the layout by that ending: .jsonl, .jsonlines, .jl, .ndjson and .json hold JSON lines.
TextLayout layout_of(std::string_view path);

inline constexpr size_t kHeadBytes = size_t{1} << 16;  // by which a file is judged, no more

// Bytes that are no part of valid UTF-8; those of a character that is cut at an end are.
size_t invalid_utf8_bytes(std::string_view sample);

// The text without the beginning of a character that its end has cut.
std::string_view whole_characters(std::string_view text);

// Throws DataError, or Unsupported naming the build option that is missing, if the beginning of a
// file is that of a known format, or of a text in UTF-16 or UTF-32. `where` begins the message.
void require_no_format(std::string_view beginning, const std::string& where);

// Throws as require_no_format() where `sample` begins the file, and DataError if it is no text: a
// known format, NUL bytes, or invalid UTF-8 in large part (a few bytes of other encodings are let
// through, and so is a cut at both ends). `where` begins the message; `at` tells whether the sample
// begins the file.
enum class SampleFrom { kBeginning, kInside };
void require_text(std::string_view sample, SampleFrom at, const std::string& where);

}  // namespace ds
