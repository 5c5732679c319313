#include "config/families/llama_like.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "config/families/spec/hf_object.h"
#include "core/status/error.h"

namespace ds {
namespace {

std::string type_of(const HfObject& rope) {
  for (const char* const key : {"rope_type", "type"}) {
    const rapidjson::Value* const name = rope.find(key);
    if (name != nullptr) return name->IsString() ? std::string(text_of(*name)) : "no text";
  }
  return "default";
}

// Positions of before, as files of some models say beside the object, whose word then counts.
std::optional<int64_t> original_positions(const HfObject& object, const HfObject& rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const auto inside = rope.number(kKey), beside = object.number(kKey);
  if (inside && beside && *inside != *beside) {
    throw DataError(fmt::format("{}: \"{}\" is {} in one place and {} in another; remove one",
                                object.path(), kKey, *inside, *beside));
  }
  const auto found = inside ? inside : beside;
  if (!found) return std::nullopt;
  if (*found != std::floor(*found) || *found < 1 || *found > double{kMostPositions}) {
    throw DataError(fmt::format("{}: \"{}\" is {}, expected a number of positions", object.path(),
                                kKey, *found));
  }
  return static_cast<int64_t>(*found);
}

// Reads what a type of scaling has, and notes its keys: which they are is said by fields().
class ScalingReader final : public Visitor {
 public:
  ScalingReader(const HfObject& object, const HfObject& rope, std::string_view name)
      : object_(object), rope_(rope), name_(name) {}

  void on_field(const Field& field) override {
    keys_.push_back(field.key);
    if (auto* const type = std::get_if<std::string*>(&field.slot)) {
      check_type(**type, field.spec.only);
    } else if (auto* const number = std::get_if<double*>(&field.slot)) {
      **number = rope_.number(field.key).value_or(**number);
    } else if (auto* const unset = std::get_if<std::optional<double>*>(&field.slot)) {
      **unset = rope_.number(field.key);
    } else {
      *std::get<std::optional<int64_t>*>(field.slot) = original_positions(object_, rope_);
    }
  }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}

  // Refuses keys of other types, too: nobody has written them for nothing.
  void refuse_others(std::string_view type) const {
    std::vector<std::string_view> known = keys_;
    known.insert(known.end(), {"type", "rope_theta", "partial_rotary_factor"});
    for (const std::string_view key : rope_.keys()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      rope_.refuse(fmt::format("\"{}\" in a \"{}\" of type \"{}\"", key, name_, type));
    }
  }

 private:
  void check_type(const std::string& type, const std::vector<std::string_view>& known) const {
    if (std::ranges::find(known, type) != known.end()) return;
    object_.refuse(fmt::format("a \"{}\" of type \"{}\"", name_, type));
  }

  const HfObject& object_;
  const HfObject& rope_;
  std::string_view name_;
  std::vector<std::string_view> keys_;
};

// What transformers refuses to go without.
std::vector<std::string_view> needed_keys(std::string_view type) {
  if (type == "llama3") return {"factor", "low_freq_factor", "high_freq_factor"};
  return {"factor"};
}

std::optional<RopeScaling> scaling_of(const HfObject& object, const HfObject& rope,
                                      std::string_view key) {
  RopeScaling c{.rope_type = type_of(rope)};
  ScalingReader reader(object, rope, key);
  fields(reader, c);
  reader.refuse_others(c.rope_type);
  if (rope.number("partial_rotary_factor").value_or(1) != 1) {
    object.refuse("\"partial_rotary_factor\" other than 1");
  }
  if (c.rope_type == "default") return std::nullopt;
  for (const std::string_view needed : needed_keys(c.rope_type)) {
    if (rope.find(needed) != nullptr) continue;
    throw DataError(fmt::format("{}: a \"{}\" of type \"{}\" has no \"{}\"", object.path(), key,
                                c.rope_type, needed));
  }
  return c;
}

void refuse_partial_rotary(const HfObject& object) {
  const double rotary_factor = object.number("partial_rotary_factor").value_or(1);
  if (rotary_factor != 1) {
    object.refuse(fmt::format("\"partial_rotary_factor\" = {}", rotary_factor));
  }
}

void read_theta(const HfObject& object, const HfObject& rope, const llama_like::RotaryKeys& keys,
                double& rope_theta) {
  const auto theta = rope.number("rope_theta");
  if (!theta) return;
  if (object.find(keys.theta) != nullptr && rope_theta != *theta) {
    throw DataError(fmt::format("{}: \"{}\" is {}, but that of \"{}\" is {}; remove one",
                                object.path(), keys.theta, rope_theta, keys.object, *theta));
  }
  rope_theta = *theta;
}

}  // namespace

void llama_like::read_rotary(const HfObject& object, double& rope_theta,
                             std::optional<RopeScaling>& rope_scaling) {
  refuse_partial_rotary(object);
  std::optional<std::pair<std::optional<RopeScaling>, double>> said;
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<HfObject> rope = object.object(key);
    if (!rope) continue;
    double theta = rope_theta;
    read_theta(object, *rope, {key, "rope_theta"}, theta);
    const std::pair found(scaling_of(object, *rope, key), theta);
    if (said && *said != found) {
      throw DataError(fmt::format(
          "{}: \"rope_scaling\" and \"rope_parameters\" are two names of one thing, but differ; "
          "remove one",
          object.path()));
    }
    said = found;
  }
  if (said) std::tie(rope_scaling, rope_theta) = *said;
}

void llama_like::read_rotary_object(const HfObject& object, const HfObject& rope,
                                    const RotaryKeys& keys, double& rope_theta,
                                    std::optional<RopeScaling>& rope_scaling) {
  refuse_partial_rotary(object);
  read_theta(object, rope, keys, rope_theta);
  rope_scaling = scaling_of(object, rope, keys.object);
}

void llama_like::refuse_other_head_dim(const HfObject& object, int64_t width, int64_t heads) {
  const auto head_dim = object.number("head_dim");
  const int64_t derived = heads > 0 ? width / heads : 0;
  if (head_dim && derived > 0 && *head_dim != static_cast<double>(derived)) {
    object.refuse("\"head_dim\" other than hidden_size / num_attention_heads");
  }
}

std::optional<int64_t> llama_like::layers_without_window(const HfObject& object,
                                                         const WindowedLayers& model) {
  const rapidjson::Value* const types = object.list("layer_types");
  if (types == nullptr) return std::nullopt;
  int64_t full = 0, sliding = 0;
  for (const rapidjson::Value& type : types->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    const bool slides = name == "sliding_attention" && model.may_slide;
    if (!slides && name != "full_attention") {
      object.refuse(fmt::format("\"{}\" among \"layer_types\"", name));
    }
    if (!slides && sliding > 0) {
      object.refuse("\"full_attention\" behind \"sliding_attention\" among \"layer_types\"");
    }
    ++(slides ? sliding : full);
  }
  if (full + sliding != model.layers) {
    throw DataError(fmt::format("{}: {} \"layer_types\" for {} layers", object.path(),
                                full + sliding, model.layers));
  }
  return full;
}

}  // namespace ds
