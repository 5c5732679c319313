#include "train/settings/frozen_names.h"

#include <algorithm>
#include <string_view>

#include "config/reader/nearest.h"
#include "core/status/error.h"
#include "optim/param_groups.h"

namespace ds {
namespace {

// Whether they fit a parameter, or some of what a folder stores of it.
bool fits_some(std::span<const std::string> patterns, const ParamSpec& spec) {
  if (patterns.empty()) return false;
  return name_fits(patterns, spec.name) ||
         (spec.stored && name_fits(patterns, spec.stored->name)) ||
         std::ranges::any_of(spec.pieces,
                             [&](const std::string& piece) { return name_fits(patterns, piece); });
}

// What is stored in pieces fits as a whole: patterns of some of its experts are refused.
bool fits(std::span<const std::string> patterns, const ParamSpec& spec) {
  if (!fits_some(patterns, spec)) return false;
  if (spec.pieces.empty() || name_fits(patterns, spec.name)) return true;
  const auto fit = [&](const std::string& piece) { return name_fits(patterns, piece); };
  if (std::ranges::all_of(spec.pieces, fit)) return true;
  throw ConfigError(fmt::format(
      "train.freeze and train.train_only: patterns that fit {}, but not all of {}, which train or "
      "are frozen together",
      *std::ranges::find_if(spec.pieces, fit), spec.name));
}

// What somebody may have meant whose pattern fits no name: a part of names, or a name that is near.
std::string meant(const std::string& pattern, std::span<const ParamSpec> model) {
  const std::string_view before = pattern.starts_with('*') ? "" : "*";
  const std::string_view behind = pattern.ends_with('*') ? "" : "*";
  const std::string inside = fmt::format("{}{}{}", before, pattern, behind);
  std::vector<std::string> names;
  int64_t within = 0;
  std::string first;
  for (const ParamSpec& spec : model) {
    names.push_back(spec.name);
    if (!fits_some({&inside, 1}, spec)) continue;
    if (within++ == 0) first = spec.name;
  }
  if (within > 0) {
    return fmt::format("patterns are of whole names: did you mean \"{}\", which {} fit{}, {} {}?",
                       inside, within, within == 1 ? "s" : "", within == 1 ? "that is" : "as",
                       first);
  }
  const std::string nearest = nearest_name(pattern, names);
  if (!nearest.empty()) return fmt::format("did you mean \"{}\"?", nearest);
  return fmt::format("the first is called {}", model.front().name);
}

void require_fit(std::string_view key, std::span<const std::string> patterns,
                 std::span<const ParamSpec> model) {
  for (const std::string& pattern : patterns) {
    const bool has_one = std::ranges::any_of(model, [&](const ParamSpec& spec) {
      return fits_some({&pattern, 1}, spec);
    });
    if (has_one) continue;
    throw ConfigError(fmt::format("train.{}: \"{}\" fits no parameter of the model; {}", key,
                                  pattern, meant(pattern, model)));
  }
}

}  // namespace

std::set<std::string> frozen_names(const TrainedChoice& choice, std::span<const ParamSpec> model) {
  DS_CHECK(!model.empty(), "frozen parameters: of a model without any");
  require_fit("train_only", choice.train_only, model);
  require_fit("freeze", choice.freeze, model);
  std::set<std::string> frozen;
  for (const ParamSpec& spec : model) {
    const bool is_named = choice.train_only.empty() || fits(choice.train_only, spec);
    if (!is_named || fits(choice.freeze, spec)) frozen.insert(spec.name);
  }
  if (frozen.size() == model.size()) {
    throw ConfigError(fmt::format(
        "train.freeze: all {} parameters of the model are frozen{}, and nothing would train",
        model.size(), choice.train_only.empty() ? "" : ", also those of train_only"));
  }
  return frozen;
}

}  // namespace ds
