#include "config/sections/sequence_split.h"

#include <fmt/format.h>

#include <numeric>

#include "config/sections/model_families.h"

namespace ds {

std::string sequence_conflict(const ModelDimensions& model, int64_t length, int64_t ranks) {
  const int64_t heads = std::gcd(model.heads, model.kv_heads);
  if (length % ranks != 0) {
    return fmt::format(
        "{} ranks cannot share sequences of {} tokens equally; expected a divisor of {}", ranks,
        length, length);
  }
  if (heads % ranks == 0) return "";
  const std::string of_keys = model.kv_heads == model.heads
                                  ? ""
                                  : fmt::format(" and {} of keys and values", model.kv_heads);
  return fmt::format("{} ranks cannot share {} heads{} equally; expected a divisor of {}", ranks,
                     model.heads, of_keys, heads);
}

}  // namespace ds
