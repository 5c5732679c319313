// Who am I.
#include "launcher/decide/rank_discovery.h"

#include <array>
#include <charconv>
#include <initializer_list>

#include "core/error.h"

namespace ds {

namespace {

struct Source {
  std::string_view launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
};

constexpr std::array<Source, 5> kSources = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"PALS", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
}};

const std::string* find(const Environment& environment, std::string_view name) {
  const auto entry = environment.find(name);
  return entry == environment.end() ? nullptr : &entry->second;
}

int number(const Environment& environment, const Source& source, std::string_view name) {
  const std::string* text = find(environment, name);
  if (!text) {
    throw UsageError(
        fmt::format("{}: {} is set, but {} is not", source.launcher, source.rank, name));
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (text->empty() || error != std::errc() || end != text->data() + text->size() || value < 0) {
    throw UsageError(
        fmt::format("{}: {} is '{}', expected a number from 0", source.launcher, name, *text));
  }
  return value;
}

// The value that all of the set ones share.
std::string agreed(const Environment& environment, std::initializer_list<std::string_view> names,
                   std::string_view what) {
  const std::string* value = nullptr;
  for (const std::string_view name : names) {
    const std::string* other = find(environment, name);
    if (value && other && *value != *other) {
      throw UsageError(fmt::format("environment: {} is '{}' and also '{}'", what, *value, *other));
    }
    if (!value) value = other;
  }
  if (!value) {
    throw UsageError(
        fmt::format("environment: no {}, expected {}", what, fmt::join(names, " or ")));
  }
  return *value;
}

}  // namespace

std::optional<RankPlace> discover_rank(const Environment& environment) {
  for (const Source& source : kSources) {
    if (!find(environment, source.rank)) continue;
    const RankPlace place{.rank = number(environment, source, source.rank),
                          .size = number(environment, source, source.size),
                          .local_rank = number(environment, source, source.local_rank),
                          .found_by = source.launcher};
    if (place.rank >= place.size || place.local_rank >= place.size) {
      throw UsageError(fmt::format("{}: rank {} of {} with local rank {} cannot be",
                                   source.launcher, place.rank, place.size, place.local_rank));
    }
    return place;
  }
  return std::nullopt;
}

RankVariables mpich_rank_variables(const Environment& environment) {
  return {
      .rank = agreed(environment, {"PMIX_RANK", "PMI_RANK"}, "rank"),
      .local_rank = agreed(environment, {"PALS_LOCAL_RANKID", "MPI_LOCALRANKID"}, "local rank")};
}

}  // namespace ds
