#include "launcher/decide/ending/room.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "core/status/error.h"

namespace ds {
namespace {

constexpr std::string_view kNeed = " need=";

std::optional<int64_t> number_behind(std::string_view words, std::string_view name) {
  const size_t at = words.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = words.substr(at + name.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<LackOfRoom> lack_of_room(const Failure& cause) {
  if (cause.kind != Failure::Kind::kExit || cause.value != static_cast<int>(ExitCode::kStorage)) {
    return std::nullopt;
  }
  constexpr std::array<std::string_view, 3> kWords = {"No space left on device",
                                                      "Disk quota exceeded", kNeed};
  const bool lacks = std::ranges::any_of(kWords, [&](std::string_view words) {
    return cause.detail.find(words) != std::string::npos;
  });
  if (!lacks) return std::nullopt;
  return LackOfRoom{.need = number_behind(cause.detail, kNeed)};
}

bool room_has_come(const LackOfRoom& lack, int ranks, int64_t free_then, int64_t free_now) {
  constexpr int64_t kMarkedly = int64_t{1} << 20;
  if (!lack.need) return free_now - free_then >= std::max(kMarkedly, free_then / 16);
  return free_now / std::max(1, ranks) >= *lack.need;
}

}  // namespace ds
