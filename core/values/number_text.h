// Numbers as texts for people (pure): scaled by a power of 1000 with its letter, as the flops
// profiler prints them, and sizes as people write them. Not for files that programs read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

// "866.077 M": value over the unit's magnitude, rounded half to even to `precision` decimals, six
// significant digits, a blank and the unit. Units T G M K, "" and below 1 m u; nullopt picks the
// largest that fits (u for everything below 0.001, negative numbers included). A unit that is none
// of these is printed with magnitude 1.
std::string number_text(double value, std::optional<std::string_view> unit = std::nullopt,
                        int precision = 2);

// number_text with a name appended: "1.5 uB", "0.5 MACs".
std::string quantity_text(double value, std::string_view name,
                          std::optional<std::string_view> unit = std::nullopt, int precision = 2);

// Parameter counts say B for 10^9 and have no trailing blank: "0.4265 B".
std::string parameter_count_text(double value, std::optional<std::string_view> unit = std::nullopt,
                                 int precision = 2);

// A size over the largest power of 1024 that keeps it at 1 or above, up to TiB. The caller chooses
// the decimals.
struct ScaledBytes {
  double value = 0;
  std::string_view unit;  // "B", "KiB", ...
};
ScaledBytes scale_bytes(double bytes);

// "4GiB", "1.5 TiB", "200 MB", "4096": bytes, with the units of 1024 (KiB to TiB) and of 1000 (kB
// to TB). Nothing where the text is no such size, or one beyond 2^62.
std::optional<int64_t> parse_bytes(std::string_view text);

}  // namespace ds
