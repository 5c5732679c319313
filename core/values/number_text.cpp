// Numbers as texts for people.
#include "core/values/number_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/status/error.h"

namespace ds {
namespace {

struct Unit {
  std::string_view letter;
  double magnitude;
};
constexpr std::array<Unit, 7> kUnits = {Unit{"T", 1e12}, Unit{"G", 1e9}, Unit{"M", 1e6},
                                        Unit{"K", 1e3},  Unit{"", 1},    Unit{"m", 1e-3},
                                        Unit{"u", 1e-6}};

Unit unit_for(double value) {
  if (value == 0) return {"", 1};
  for (const Unit& unit : kUnits) {
    if (value >= unit.magnitude) return unit;
  }
  return kUnits.back();
}

Unit unit_named(std::string_view letter) {
  for (const Unit& unit : kUnits) {
    if (unit.letter == letter) return unit;
  }
  return {letter, 1};
}

// To `precision` decimals, exact halves to even: what printing in full and reading back does.
double rounded(double value, int precision) {
  if (!std::isfinite(value)) return value;
  return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
}

}  // namespace

std::string number_text(double value, std::optional<std::string_view> unit, int precision) {
  DS_CHECK(precision >= 0 && precision <= 300, "number_text: {} decimals", precision);
  const Unit chosen = unit ? unit_named(*unit) : unit_for(value);
  return fmt::format("{:g} {}", rounded(value / chosen.magnitude, precision), chosen.letter);
}

std::string quantity_text(double value, std::string_view name, std::optional<std::string_view> unit,
                          int precision) {
  return number_text(value, unit, precision) + std::string(name);
}

std::string parameter_count_text(double value, std::optional<std::string_view> unit,
                                 int precision) {
  std::string text = number_text(value, unit == "B" ? "G" : unit, precision);
  if (text.ends_with('G')) text.back() = 'B';
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

ScaledBytes scale_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return {bytes, kUnits[unit]};
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::array<Unit, 10> kByteUnits = {
      Unit{"", 1},         Unit{"B", 1},       Unit{"kB", 1e3},     Unit{"MB", 1e6},
      Unit{"GB", 1e9},     Unit{"TB", 1e12},   Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
      Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double magnitude = 0;
  for (const Unit& known : kByteUnits) {
    if (unit == known.letter) magnitude = known.magnitude;
  }
  const double bytes = value * magnitude;
  if (magnitude == 0 || bytes > 0x1p62) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace ds
