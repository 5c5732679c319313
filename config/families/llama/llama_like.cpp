#include "config/families/llama/llama_like.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/families/spec/hf_object.h"
#include "config/families/spec/layer_types.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

std::string type_of(const HfObject& rope) {
  for (const char* const key : {"rope_type", "type"}) {
    const rapidjson::Value* const name = rope.find(key);
    if (name == nullptr) continue;
    if (!name->IsString()) return "no text";
    return std::string(text_of(*name));
  }
  return "default";
}

// A file has one such object for all layers, or one for each kind of layers.
enum class RopePlace { kOfAll, kOfSome };

// Positions of before, as files of some models say beside the object, whose word then counts; not
// beside several, where transformers reads none.
std::optional<int64_t> original_positions(const HfObject& object, const HfObject& rope,
                                          RopePlace place) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const auto inside = rope.number(kKey);
  const auto beside = place == RopePlace::kOfAll ? object.number(kKey) : std::nullopt;
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
  ScalingReader(const HfObject& object, const HfObject& rope, std::string_view name,
                RopePlace place)
      : object_(object), rope_(rope), name_(name), place_(place) {}

  void on_field(const Field& field) override {
    keys_.push_back(field.key);
    if (auto* const type = std::get_if<std::string*>(&field.slot)) {
      check_type(**type, field.spec.only);
    } else if (auto* const number = std::get_if<double*>(&field.slot)) {
      **number = rope_.number(field.key).value_or(**number);
    } else if (auto* const numbers = std::get_if<std::vector<double>*>(&field.slot)) {
      **numbers = numbers_of(field.key);
    } else if (auto* const unset = std::get_if<std::optional<double>*>(&field.slot)) {
      **unset = rope_.number(field.key);
    } else if (auto* const maybe = std::get_if<std::optional<bool>*>(&field.slot)) {
      **maybe = switch_of(field.key);
    } else {
      *std::get<std::optional<int64_t>*>(field.slot) = original_positions(object_, rope_, place_);
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
  std::vector<double> numbers_of(std::string_view key) const {
    std::vector<double> numbers;
    const rapidjson::Value* const list = rope_.list(key);
    if (list == nullptr) return numbers;
    for (const rapidjson::Value& number : list->GetArray()) {
      if (!number.IsNumber()) {
        throw DataError(fmt::format("{}: \"{}\" in \"{}\" has something else than numbers",
                                    object_.path(), key, name_));
      }
      numbers.push_back(number.GetDouble());
    }
    return numbers;
  }
  // Nothing where the key is silent. A null is no default to transformers, but means false, and in
  // objects of some layers alone it finds none.
  std::optional<bool> switch_of(std::string_view key) const {
    const rapidjson::Value* const value = rope_.find(key);
    if (value == nullptr && !rope_.is_null(key)) return std::nullopt;
    if (value != nullptr && !value->IsBool()) {
      throw DataError(
          fmt::format("{}: \"{}\" in \"{}\" must be true or false", object_.path(), key, name_));
    }
    const bool on = value != nullptr && value->GetBool();
    if (place_ == RopePlace::kOfSome && !on) {
      object_.refuse(fmt::format(
          "\"{}\" in a \"{}\" of some layers, where transformers passes over it,", key, name_));
    }
    return on;
  }
  void check_type(const std::string& type, const std::vector<std::string_view>& known) const {
    if (std::ranges::find(known, type) != known.end()) return;
    object_.refuse(fmt::format("a \"{}\" of type \"{}\"", name_, type));
  }

  const HfObject& object_;
  const HfObject& rope_;
  std::string_view name_;
  RopePlace place_;
  std::vector<std::string_view> keys_;
};

// What transformers refuses to go without.
std::vector<std::string_view> needed_keys(std::string_view type) {
  if (type == "llama3") return {"factor", "low_freq_factor", "high_freq_factor"};
  if (type == "longrope") return {"short_factor", "long_factor"};
  return {"factor"};
}

std::optional<RopeScaling> scaling_of(const HfObject& object, const HfObject& rope,
                                      std::string_view key, RopePlace place,
                                      bool is_longrope_by_old_names = false) {
  RopeScaling c{.rope_type = type_of(rope)};
  if (is_longrope_by_old_names && (c.rope_type == "su" || c.rope_type == "yarn")) {
    c.rope_type = "longrope";
  }
  ScalingReader reader(object, rope, key, place);
  fields(reader, c);
  reader.refuse_others(c.rope_type);
  if (c.rope_type == "default") return std::nullopt;
  for (const std::string_view needed : needed_keys(c.rope_type)) {
    if (rope.find(needed) != nullptr) continue;
    throw DataError(fmt::format("{}: a \"{}\" of type \"{}\" has no \"{}\"", object.path(), key,
                                c.rope_type, needed));
  }
  return c;
}

constexpr std::string_view kShare = "partial_rotary_factor";

// Families whose heads turn as a whole have no key for it.
void refuse_partial_rotary(const HfObject& object) {
  const double share = object.number(kShare).value_or(1);
  if (share != 1) object.refuse(fmt::format("\"{}\" = {}", kShare, share));
}

// A number of a rotary object, and the keys of both: of the number in it and of the same beside it.
struct NumberKeys {
  std::string_view object, inside, beside;
};
void read_number(const HfObject& object, const HfObject& rope, const NumberKeys& keys,
                 double& number) {
  const auto found = rope.number(keys.inside);
  if (!found) return;
  if (object.find(keys.beside) != nullptr && number != *found) {
    throw DataError(fmt::format("{}: \"{}\" is {}, but that of \"{}\" is {}; remove one",
                                object.path(), keys.beside, number, keys.object, *found));
  }
  number = *found;
}

}  // namespace

void llama_like::read_rotary_words(const HfObject& object, const RotaryWords& words) {
  if (!words.share) refuse_partial_rotary(object);
  struct Said {
    std::optional<RopeScaling> scaling;
    double theta, share;
    bool operator==(const Said&) const = default;
  };
  std::optional<Said> said;
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<HfObject> rope = object.object(key);
    if (!rope) continue;
    Said found{.scaling = scaling_of(object, *rope, key, RopePlace::kOfAll,
                                     words.is_longrope_by_old_names),
               .theta = words.theta.member,
               .share = words.share ? words.share->member : 1};
    read_number(object, *rope, {key, "rope_theta", words.theta.key}, found.theta);
    if (words.share) {
      read_number(object, *rope, {key, kShare, words.share->key}, found.share);
    } else {
      refuse_partial_rotary(*rope);
    }
    if (said && *said != found) {
      throw DataError(fmt::format(
          "{}: \"rope_scaling\" and \"rope_parameters\" are two names of one thing, but differ; "
          "remove one",
          object.path()));
    }
    said = found;
  }
  if (!said) return;
  words.scaling = said->scaling;
  words.theta.member = said->theta;
  if (words.share) words.share->member = said->share;
}

namespace {

// Takes what one such object says, where a file has several.
void read_rotary_object(const HfObject& object, const HfObject& rope,
                        const llama_like::Named<double>& theta,
                        std::optional<RopeScaling>& scaling) {
  refuse_partial_rotary(object);
  refuse_partial_rotary(rope);
  read_number(object, rope, {"rope_parameters", "rope_theta", theta.key}, theta.member);
  scaling = scaling_of(object, rope, "rope_parameters", RopePlace::kOfSome);
}

}  // namespace

void llama_like::read_rotary_of_layers(const HfObject& object, const RotaryWords& words,
                                       const Named<double>& windowed) {
  const auto both = object.object("rope_parameters");
  if (!both) {
    const auto scaling = object.object("rope_scaling");
    if (scaling && scaling->find("type") != nullptr && scaling->find("rope_type") == nullptr) {
      object.refuse(
          "\"type\" in \"rope_scaling\", which releases of transformers before 5 scale by and "
          "later ones pass over (\"rope_type\" is meant by both),");
    }
    return read_rotary_words(object, words);
  }
  if (object.find("rope_scaling") != nullptr) {
    object.refuse("\"rope_scaling\" beside \"rope_parameters\"");
  }
  for (const std::string_view key : both->keys()) {
    if (key == "full_attention" || key == "sliding_attention") continue;
    object.refuse(fmt::format("\"{}\" in \"rope_parameters\", where layers are named,", key));
  }
  if (const auto full = both->object("full_attention")) {
    read_rotary_object(object, *full, words.theta, words.scaling);
  }
  if (const auto sliding = both->object("sliding_attention")) {
    std::optional<RopeScaling> scaling;
    read_rotary_object(object, *sliding, windowed, scaling);
    if (scaling) object.refuse("a scaling of \"sliding_attention\" in \"rope_parameters\"");
  }
}

void llama_like::add_factor_conflicts(std::vector<SizeConflict>& to,
                                      const std::optional<RopeScaling>& scaling, int64_t pairs) {
  if (!scaling || scaling->rope_type != "longrope") return;
  const auto check = [&](std::string_view key, const std::vector<double>& factors) {
    if (std::ssize(factors) != pairs) {
      to.push_back({key, fmt::format("{} factors of {} pairs of elements that turn", factors.size(),
                                     pairs)});
    } else if (std::ranges::any_of(factors, [](double factor) { return !(factor > 0); })) {
      to.push_back({key, "a factor that is not greater than 0"});
    }
  };
  check("rope_scaling.short_factor", scaling->short_factor);
  check("rope_scaling.long_factor", scaling->long_factor);
}

void llama_like::refuse_other_head_dim(const HfObject& object, int64_t width, int64_t heads) {
  const auto head_dim = object.number("head_dim");
  const int64_t derived = heads > 0 ? width / heads : 0;
  if (head_dim && derived > 0 && *head_dim != static_cast<double>(derived)) {
    object.refuse("\"head_dim\" other than hidden_size / num_attention_heads");
  }
}

void llama_like::read_window_layers(const HfObject& object, const WindowedLayers& model,
                                    int64_t& first_with_window, LayerTypes& types) {
  types = read_layer_types(object, model.layers, model.may_slide);
  if (!types) return;
  const std::vector<bool> full = full_layers(types);
  const auto first = std::ranges::find(full, false) - full.begin();
  if (!is_window_of({.first_layer = first}, types)) return;
  first_with_window = first;
  types.reset();
}

}  // namespace ds
