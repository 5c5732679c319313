// Area checkpoint: names, tags, layouts and values of DeepSpeed checkpoints.
#include <fmt/format.h>

#include "checkpoint/deepspeed/consolidate.h"
#include "checkpoint/deepspeed/names.h"
#include "checkpoint/deepspeed/reshape.h"
#include "checkpoint/deepspeed/state_tree.h"
#include "checkpoint/tag.h"
#include "core/status/error.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

using namespace ds::deepspeed;

std::string file_name(const Json& input) {
  const std::string kind = get<std::string>(input, "kind");
  const Tag tag = get_optional<std::string>(input, "tag");
  const auto number = [&](const char* key) { return get<int>(input, key); };
  const auto grid = [&] {
    return RankGrid(list<std::string>(need(input, "axes")), list<int>(need(input, "dims")));
  };
  if (kind == "zero") {
    return optimizer_states_name(tag, number("dp_rank"), number("mp_rank"),
                                 get<bool>(input, "bf16") ? HalfType::kBF16 : HalfType::kF16);
  }
  if (kind == "model" && get<bool>(input, "zero3")) {
    return partitioned_model_states_name(tag, number("dp_rank"), number("mp_rank"));
  }
  if (kind == "model") return model_states_name(tag, number("mp_rank"));
  if (kind == "expert")
    return expert_states_name(tag, number("layer_id"), number("expert_id"), number("mp_rank"));
  if (kind == "optimizer")
    return expert_optimizer_states_name(tag, number("expert_rank"), number("mp_rank"));
  if (kind == "layer") return layer_states_name(grid(), number("rank"), number("layer"));
  if (kind == "module_prefix") return module_prefix(tag, grid(), number("rank"));
  if (kind == "zero_plain") {
    return optimizer_states_name(std::nullopt, number("dp_rank"), number("mp_rank"),
                                 HalfType::kF16);
  }
  if (kind == "model_plain") {
    if (const auto text = get_optional<std::string>(input, "mp_rank_str"))
      return model_states_name(*text);
    return model_states_name(std::nullopt, number("mp_rank"));
  }
  return layer_states_name(get<std::string>(input, "layer_id"), number("tp_rank"));
}

std::string latest(const Json& input) {
  const Json& files = need(input, "files");
  const auto kind =
      get<bool>(input, "universal") ? CheckpointKind::kUniversal : CheckpointKind::kRegular;
  const auto tag =
      tag_to_load(get_optional<std::string>(input, "tag"), kind, [&](std::string_view name) {
        return get_optional<std::string>(files, std::string(name).c_str());
      });
  return tag ? Answer().add("tag", *tag).text() : Answer().add("tag", std::nullopt).text();
}

std::string tag_validation(const Json& input) {
  const TagVerdict verdict = judge_tags(list<std::string>(need(input, "tags")),
                                        tag_validation_named(get<std::string>(input, "mode")));
  return Answer().add("failed", verdict.failed).add("warned", verdict.warned).text();
}

Layout layout_of(const Json& sizes) {
  return {as<int64_t>(sizes[0]), as<int64_t>(sizes[1]),
          sizes.Size() > 2 ? as<int64_t>(sizes[2]) : 1};
}

Json map_json(const RankMap& map, rapidjson::Document::AllocatorType& memory) {
  Json object(rapidjson::kObjectType);
  for (int64_t p = 0; p < map.pipe(); ++p) {
    for (int64_t t = 0; t < map.tensor(); ++t) {
      Json ranks(rapidjson::kArrayType);
      for (const int64_t rank : map.at(p, t)) ranks.PushBack(rank, memory);
      object.AddMember(Json(fmt::format("{},{}", p, t).c_str(), memory), ranks, memory);
    }
  }
  return object;
}

std::string reshape_3d(const Json& input) {
  rapidjson::Document out(rapidjson::kObjectType);
  Json maps(rapidjson::kArrayType);
  for (const RankMap& map :
       reshape_all_ranks(layout_of(need(input, "source")), layout_of(need(input, "target")))) {
    maps.PushBack(map_json(map, out.GetAllocator()), out.GetAllocator());
  }
  out.AddMember("maps", maps, out.GetAllocator());
  return to_text(out);
}

std::string reshape_2d(const Json& input) {
  rapidjson::Document out(rapidjson::kObjectType);
  const RankMap map =
      reshape_model_ranks(layout_of(need(input, "old")), layout_of(need(input, "new")));
  out.AddMember("map", map_json(map, out.GetAllocator()), out.GetAllocator());
  return to_text(out);
}

std::string mpu_ranks(const Json& input) {
  const auto groups = model_parallel_groups({.pipe = get<int64_t>(input, "pp"),
                                             .tensor = get<int64_t>(input, "tp"),
                                             .data = get<int64_t>(input, "dp")});
  return Answer().add("tp", groups.tensor).add("pp", groups.pipe).add("dp", groups.data).text();
}

std::string consolidate(const Json& input) {
  ParamGroups groups;
  for (const Json& group : array(need(input, "param_shapes")).GetArray()) {
    auto& shapes = groups.emplace_back();
    for (const Json& entry : group.GetArray())
      shapes.push_back({as<std::string>(entry[0]), list<int64_t>(entry[1])});
  }
  std::vector<RankPartitions> ranks;
  for (const Json& rank : array(need(input, "flat")).GetArray()) {
    auto& partitions = ranks.emplace_back();
    for (const Json& group : rank.GetArray()) partitions.push_back(list<float>(group));
  }
  const auto tensors = get<int>(input, "stage") == 3 ? consolidate_partitioned(groups, ranks)
                                                     : consolidate_flat(groups, ranks);
  rapidjson::Document out(rapidjson::kObjectType);
  auto& memory = out.GetAllocator();
  Json object(rapidjson::kObjectType);
  for (const NamedTensor& tensor : tensors) {
    Json values(rapidjson::kArrayType);
    for (const float value : tensor.values) values.PushBack(static_cast<double>(value), memory);
    object.AddMember(Json(tensor.name.c_str(), memory), values, memory);
  }
  out.AddMember("tensors", object, memory);
  return to_text(out);
}

StateTree tree_of(const Json& json) {
  if (json.IsNull()) return {std::monostate{}};
  if (json.IsBool()) return {json.GetBool()};
  if (json.IsInt64()) return {json.GetInt64()};
  if (json.IsNumber()) return {json.GetDouble()};
  if (json.IsString()) return {std::string(json.GetString())};
  if (json.IsArray()) {
    StateList entries;
    for (const Json& entry : json.GetArray()) entries.push_back(tree_of(entry));
    return {entries};
  }
  if (json.MemberCount() == 1 && json.HasMember("t") && json["t"].IsArray())
    return {list<double>(json["t"])};
  StateMap map;
  for (const auto& member : json.GetObject())
    map.emplace_back(member.name.GetString(), tree_of(member.value));
  return {map};
}

Json json_of(const StateTree& tree, rapidjson::Document::AllocatorType& memory) {
  if (const auto* flag = std::get_if<bool>(&tree.value)) return Json(*flag);
  if (const auto* whole = std::get_if<int64_t>(&tree.value)) return Json(*whole);
  if (const auto* real = std::get_if<double>(&tree.value)) return Json(*real);
  if (const auto* text = std::get_if<std::string>(&tree.value)) return Json(text->c_str(), memory);
  if (const auto* tensor = std::get_if<StateTensor>(&tree.value)) {
    Json values(rapidjson::kArrayType), object(rapidjson::kObjectType);
    for (const double value : *tensor) values.PushBack(value, memory);
    object.AddMember("t", values, memory);
    return object;
  }
  if (const auto* entries = std::get_if<StateList>(&tree.value)) {
    Json array_json(rapidjson::kArrayType);
    for (const StateTree& entry : *entries) array_json.PushBack(json_of(entry, memory), memory);
    return array_json;
  }
  if (const auto* map = std::get_if<StateMap>(&tree.value)) {
    Json object(rapidjson::kObjectType);
    for (const auto& [key, value] : *map)
      object.AddMember(Json(key.c_str(), memory), json_of(value, memory), memory);
    return object;
  }
  return Json();
}

std::string merge(const Json& input) {
  const auto side = [&](const char* key) { return tree_of(input[key]); };
  rapidjson::Document out(rapidjson::kObjectType);
  const StateTree merged = merge_states(side("a"), side("b"));
  out.AddMember("merged", json_of(merged, out.GetAllocator()), out.GetAllocator());
  return to_text(out);
}

}  // namespace

std::string checkpoint(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "file_name") return Answer().add("name", file_name(input)).text();
  if (op == "default_tag")
    return Answer().add("tag", default_tag(get<int64_t>(input, "global_steps"))).text();
  if (op == "latest") return latest(input);
  if (op == "tag_validation") return tag_validation(input);
  if (op == "save_dir") {
    require_save_dir(get_optional<std::string>(input, "save_dir"));
    return Answer().add("ok", true).text();
  }
  if (op == "natural_sort") {
    auto names = list<std::string>(need(input, "names"));
    natural_sort(names);
    return Answer().add("names", names).text();
  }
  if (op == "sort_zero_files") {
    return Answer().add("files", zero_files(list<std::string>(need(input, "files")))).text();
  }
  if (op == "descriptor") {
    const Layout layout = layout_from_names(list<std::string>(need(input, "files")));
    return Answer().add("pp", layout.pipe).add("tp", layout.tensor).add("dp", layout.data).text();
  }
  if (op == "reshape_3d") return reshape_3d(input);
  if (op == "reshape_2d") return reshape_2d(input);
  if (op == "mpu_ranks") return mpu_ranks(input);
  if (op == "consolidate") return consolidate(input);
  return merge(input);
}

}  // namespace ds::conform
