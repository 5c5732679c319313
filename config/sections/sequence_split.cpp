#include "config/sections/sequence_split.h"

#include <fmt/format.h>

#include <numeric>

#include "config/families/list.h"
#include "config/reader/fields.h"

namespace ds {

std::span<const EnumName> names_of(SequenceSplit) {
  static constexpr EnumName kNames[] = {
      {"ulysses", static_cast<int>(SequenceSplit::kUlysses)},
      {"ring", static_cast<int>(SequenceSplit::kRing)},
  };
  return kNames;
}

namespace {

std::string ring_conflict(const ModelDimensions& model, int64_t length, int64_t ranks) {
  if (length % (2 * ranks) != 0) {
    return fmt::format(
        "{} ranks of a ring cannot have two equal pieces each of sequences of {} tokens; expected "
        "a number whose double divides {}",
        ranks, length, length);
  }
  if (model.attention_dropout == 0) return "";
  return fmt::format(
      "a ring drops no probabilities of attention, and the model's dropout of them is {}; set that "
      "to 0, or sequence_parallel_attention to \"ulysses\"",
      model.attention_dropout);
}

std::string heads_conflict(const ModelDimensions& model, const SequenceSharing& sharing) {
  const int64_t heads = std::gcd(model.heads, model.kv_heads);
  if (heads % sharing.trading() == 0) return "";
  const std::string of_keys = model.kv_heads == model.heads
                                  ? ""
                                  : fmt::format(" and {} of keys and values", model.kv_heads);
  const std::string which =
      sharing.ring == 1 ? "" : fmt::format(" in each of {} places of a ring", sharing.ring);
  return fmt::format("{} ranks{} cannot share {} heads{} equally; expected a divisor of {}",
                     sharing.trading(), which, model.heads, of_keys, heads);
}

}  // namespace

std::string sequence_conflict(const ModelDimensions& model, int64_t length,
                              const SequenceSharing& sharing) {
  if (sharing.ring > 1) {
    if (std::string why = ring_conflict(model, length, sharing.ring); !why.empty()) return why;
  }
  if (length % sharing.ranks != 0) {
    return fmt::format(
        "{} ranks cannot share sequences of {} tokens equally; expected a divisor of {}",
        sharing.ranks, length, length);
  }
  return heads_conflict(model, sharing);
}

std::string ring_size_conflict(const SequenceSharing& sharing) {
  if (sharing.ranks % sharing.ring == 0) return "";
  return fmt::format(
      "rings of {} ranks cannot be made of the {} of sequence_parallel_size; expected a divisor "
      "of {}",
      sharing.ring, sharing.ranks, sharing.ranks);
}

}  // namespace ds
