// File names of DeepSpeed's checkpoints.
#include "checkpoint/deepspeed/names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

std::string in_folder(const Tag& tag, const std::string& name) {
  return tag && !tag->empty() ? *tag + "/" + name : name;
}

// Length of the leading run of digits.
size_t digits(std::string_view text) {
  return to_size(std::ranges::find_if_not(text, is_digit) - text.begin());
}

// -1, 0, 1 as numbers of any length.
int compare_numbers(std::string_view a, std::string_view b) {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int order = a.compare(b);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

// Names are lists of text, number, text, number, ...: the text before the first digit may be empty.
bool natural_less(std::string_view a, std::string_view b) {
  const auto take_text = [](std::string_view& name) {
    const auto length = to_size(std::ranges::find_if(name, is_digit) - name.begin());
    const std::string_view text = name.substr(0, length);
    name.remove_prefix(length);
    return text;
  };
  while (true) {
    if (const int order = take_text(a).compare(take_text(b)); order != 0) return order < 0;
    if (a.empty() || b.empty()) return a.empty() && !b.empty();
    const size_t in_a = digits(a), in_b = digits(b);
    if (const int order = compare_numbers(a.substr(0, in_a), b.substr(0, in_b)); order != 0)
      return order < 0;
    a.remove_prefix(in_a);
    b.remove_prefix(in_b);
  }
}

// The number at the front of `text`, which is removed; nothing when there is none or it is absurd.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits(text), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(to_size(end - text.data()));
  return value;
}

constexpr std::string_view kModelPrefix = "mp_rank_";
constexpr std::array<std::string_view, 3> kZeroPrefixes = {"zero_pp_rank_", "fp16_zero_pp_rank_",
                                                           "bf16_zero_pp_rank_"};

std::vector<std::string> with_prefix(std::span<const std::string> names, std::string_view prefix) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&](const std::string& n) { return n.starts_with(prefix); });
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::string optimizer_states_name(const Tag& tag, int data_rank, int model_rank, HalfType half) {
  return in_folder(tag, fmt::format("{}zero_pp_rank_{}_mp_rank_{:02d}_optim_states.pt",
                                    half == HalfType::kBF16 ? "bf16_" : "", data_rank, model_rank));
}

std::string model_states_name(const Tag& tag, int model_rank) {
  return in_folder(tag, model_states_name(fmt::format("{:02d}", model_rank)));
}

std::string partitioned_model_states_name(const Tag& tag, int data_rank, int model_rank) {
  return in_folder(
      tag, fmt::format("zero_pp_rank_{}_mp_rank_{:02d}_model_states.pt", data_rank, model_rank));
}

std::string model_states_name(std::string_view model_rank_text) {
  return fmt::format("mp_rank_{}_model_states.pt", model_rank_text);
}

std::string expert_states_name(const Tag& tag, int64_t layer, int64_t expert, int model_rank) {
  const std::string in_layer = layer < 0 ? "" : fmt::format("layer_{}_", layer);
  return in_folder(
      tag, fmt::format("{}expert_{}_mp_rank_{:02d}_model_states.pt", in_layer, expert, model_rank));
}

std::string expert_optimizer_states_name(const Tag& tag, int expert_rank, int model_rank) {
  return in_folder(
      tag, fmt::format("expp_rank_{}_mp_rank_{:02d}_optim_states.pt", expert_rank, model_rank));
}

std::string layer_states_name(const RankGrid& grid, int rank, int layer) {
  const std::string omit[] = {"data", "pipe"};
  const std::string label = grid.label(rank, omit);
  return fmt::format("layer_{:02d}{}{}-model_states.pt", layer, label.empty() ? "" : "-", label);
}

std::string layer_states_name(std::string_view layer, int tensor_rank) {
  return fmt::format("{}-model_{:02d}_model_states.pt", layer, tensor_rank);
}

std::string module_prefix(const Tag& tag, const RankGrid& grid, int rank) {
  const std::string omit[] = {"data"};
  const std::string label = grid.label(rank, omit);
  return in_folder(tag, fmt::format("module{}{}", label.empty() ? "" : "-", label));
}

void natural_sort(std::vector<std::string>& names) {
  std::ranges::stable_sort(
      names, [](const std::string& a, const std::string& b) { return natural_less(a, b); });
}

std::vector<std::string> zero_files(std::span<const std::string> names) {
  for (const std::string_view prefix : kZeroPrefixes) {
    const std::vector<std::string> found = with_prefix(names, prefix);
    if (found.empty()) continue;
    std::vector<std::tuple<int64_t, int64_t, std::string>> ranked;
    for (const std::string& name : found) {
      std::string_view rest = std::string_view(name).substr(prefix.size());
      const auto data_rank = take_number(rest);
      std::optional<int64_t> model_rank;
      if (rest.starts_with("_mp_rank_")) {
        rest.remove_prefix(std::string_view("_mp_rank_").size());
        model_rank = take_number(rest);
      }
      if (!data_rank || !model_rank) {
        throw DataError(fmt::format("checkpoint: file name {} has no data and model rank", name));
      }
      ranked.emplace_back(*data_rank, *model_rank, name);
    }
    std::ranges::sort(ranked);
    std::vector<std::string> sorted;
    for (auto& entry : ranked) sorted.push_back(std::move(std::get<2>(entry)));
    return sorted;
  }
  return {};
}

Layout layout_from_names(std::span<const std::string> names) {
  const auto count = [&](std::string_view prefix) {
    return static_cast<int64_t>(with_prefix(names, prefix).size());
  };
  const int64_t model_files = count(kModelPrefix);
  const int64_t layer_files = count("layer_01");
  Layout layout{.pipe = 1, .tensor = layer_files > 0 ? layer_files : model_files, .data = 1};
  if (layer_files > 0) layout.pipe = model_files / layer_files;
  if (layout.pipe * layout.tensor == 0) {
    throw DataError(
        fmt::format("checkpoint: {} mp_rank files and {} files of layer 01 make no layout",
                    model_files, layer_files));
  }
  const auto zero = static_cast<int64_t>(zero_files(names).size());
  layout.data = std::max<int64_t>(1, zero / (layout.pipe * layout.tensor));
  return layout;
}

}  // namespace ds::deepspeed
