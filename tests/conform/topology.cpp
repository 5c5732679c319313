// Area topology: rank grids, a pipeline grid as one rank sees it, and expert groups.
#include <algorithm>

#include "checkpoint/deepspeed/rank_grid.h"
#include "comm/mesh_layout.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

RankGrid grid_of(const Json& input) {
  return RankGrid(list<std::string>(need(input, "axes")), list<int>(need(input, "dims")));
}

Coordinates coordinates_of(const Json& object) {
  Coordinates result;
  for (const auto& member : object.GetObject())
    result[member.name.GetString()] = as<int>(member.value);
  return result;
}

std::string describe(const Json& input) {
  const RankGrid grid = grid_of(input);
  rapidjson::Document out(rapidjson::kObjectType);
  auto& memory = out.GetAllocator();
  const auto json = [&](const RankList& ranks) {
    Json array(rapidjson::kArrayType);
    for (const int rank : ranks) array.PushBack(rank, memory);
    return array;
  };
  Json coordinates(rapidjson::kArrayType), groups(rapidjson::kObjectType);
  for (int rank = 0; rank < grid.world_size(); ++rank)
    coordinates.PushBack(json(grid.coordinates(rank)), memory);
  for (const std::string& axis : grid.axes()) {
    Json lists(rapidjson::kArrayType);
    for (const RankList& group : grid.groups(axis)) lists.PushBack(json(group), memory);
    groups.AddMember(Json(axis.c_str(), memory), lists, memory);
  }
  out.AddMember("world_size", grid.world_size(), memory);
  out.AddMember("coords", coordinates, memory);
  out.AddMember("comm_lists", groups, memory);
  return to_text(out);
}

std::string label(const Json& input) {
  const std::vector<std::string> omit = find(input, "omit_axes")
                                            ? list<std::string>(need(input, "omit_axes"))
                                            : std::vector<std::string>{"data", "pipe"};
  return Answer()
      .add("text", grid_of(input).label(get<int>(input, "rank"), omit,
                                        get_or<std::string>(input, "inner_sep", "_"),
                                        get_or<std::string>(input, "outer_sep", "-")))
      .text();
}

std::string pipeline_grid(const Json& input) {
  const int world = get<int>(input, "world_size"), rank = get<int>(input, "rank");
  const RankGrid grid = find(input, "axes") ? grid_of(input) : default_pipeline_grid(world);
  if (grid.world_size() != world) throw std::invalid_argument("grid and world size differ");
  const int stage = grid.coordinate(rank, "pipe"), data = grid.coordinate(rank, "data");
  const int model_size = std::max(grid.size("model"), 1);
  const RankList model = grid.matching({{"data", data}});
  const RankList slice = model_size > 1 ? grid.group_of(rank, "model") : RankList{rank};
  return Answer()
      .add("pipe_parallel_size", std::max(grid.size("pipe"), 1))
      .add("data_parallel_size", std::max(grid.size("data"), 1))
      .add("model_parallel_size", model_size)
      .add("stage_id", stage)
      .add("data_parallel_id", data)
      .add("is_first_stage", stage == 0)
      .add("is_last_stage", stage == grid.size("pipe") - 1)
      .add("dp_group", grid.group_of(rank, "data"))
      .add("pp_group", grid.group_of(rank, "pipe"))
      .add("slice_group", slice)
      .add("p2p_groups", next_stage_pairs(grid))
      .add("model_rank", std::ranges::find(model, rank) - model.begin())
      .add("model_world_size", model.size())
      .text();
}

std::string stage_to_global(const Json& input) {
  Coordinates to{{"pipe", get<int>(input, "stage")}};
  if (const auto data = get_optional<int>(input, "data")) to["data"] = *data;
  return Answer().add("rank", grid_of(input).moved(get<int>(input, "rank"), to)).text();
}

std::string expert_groups(const Json& input) {
  const bool data_first = get<bool>(input, "data_before_expert");
  const MeshLayout mesh(
      mesh_sizes(get<int>(input, "world_size"),
                 {.pipe = get<int>(input, "pipe"),
                  .tensor = get<int>(input, "tensor"),
                  .expert = get<int>(input, "expert"),
                  .order = data_first ? ExpertOrder::kDataFirst : ExpertOrder::kExpertFirst}));
  return Answer()
      .add("expert_parallel", mesh.groups(Axis::kExpert))
      .add("expert_data_parallel", mesh.groups(Axis::kExpertData))
      .text();
}

}  // namespace

std::string topology(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "describe") return describe(input);
  if (op == "rank")
    return Answer().add("rank", grid_of(input).rank(coordinates_of(need(input, "coord")))).text();
  if (op == "filter") {
    return Answer()
        .add("ranks", grid_of(input).matching(coordinates_of(need(input, "match"))))
        .text();
  }
  if (op == "axis_list") {
    return Answer()
        .add("ranks",
             grid_of(input).matching({{get<std::string>(input, "axis"), get<int>(input, "idx")}}))
        .text();
  }
  if (op == "comm_lists")
    return Answer().add("lists", grid_of(input).groups(get<std::string>(input, "axis"))).text();
  if (op == "rank_repr") return label(input);
  if (op == "prime_factors")
    return Answer().add("factors", prime_factors(get<int>(input, "n"))).text();
  if (op == "grid") return pipeline_grid(input);
  if (op == "stage_to_global") return stage_to_global(input);
  return expert_groups(input);
}

}  // namespace ds::conform
