// Areas partition and zero_partition: cuts of layers, tensors and parameter groups, and what is
// told about them.
#include "core/values/partition.h"

#include "checkpoint/deepspeed/partition.h"
#include "comm/traffic_figures.h"
#include "model/parallel/pipeline_cut.h"
#include "model/parallel/tensor_shard.h"
#include "tests/conform/areas.h"
#include "tests/conform/coalesced.h"
#include "tests/conform/json_io.h"
#include "tests/support/ranks.h"
#include "zero/estimate.h"

namespace ds::conform {
namespace {

std::string layers(const Json& input) {
  std::vector<CutLayer> layers;
  for (const Json& layer : array(need(input, "layers")).GetArray()) {
    layers.push_back({as<std::string>(layer[0]), as<int64_t>(layer[1])});
  }
  return Answer()
      .add("parts",
           cut_layers(get<std::string>(input, "method"), layers, get<int>(input, "stages")))
      .text();
}

std::string stage12(const Json& input) {
  const auto order = get<bool>(input, "round_robin") ? FlatOrder::kRoundRobin : FlatOrder::kGiven;
  const int world = get<int>(input, "world_size");
  const FlatPartition p = partition_flat_group(list<int64_t>(need(input, "numels")), world, order);
  return Answer()
      .add("order", p.order)
      .add("aligned_numel", p.aligned_numel)
      .add("partition_size", std::vector<int64_t>(static_cast<size_t>(world), p.partition_numel))
      .add("paddings", p.paddings)
      .add("in_partition", p.owned)
      .add("first_offset", p.first_offset)
      .text();
}

// Every rank of the case is a thread with the product's own communicator.
std::string reduce_scatter(const Json& input) {
  const Json& ranks = array(need(input, "tensors"));
  std::vector<std::vector<std::vector<float>>> out(ranks.Size());
  test::run_ranks(static_cast<int>(ranks.Size()), [&](Communicator& comm) {
    test::RankStream rank(comm);
    const auto me = static_cast<rapidjson::SizeType>(comm.rank());
    std::vector<std::vector<float>> values;
    std::vector<Tensor> tensors;
    for (const Json& tensor : ranks[me].GetArray()) {
      auto& data = values.emplace_back(list<float>(tensor));
      tensors.push_back(
          Tensor::borrow(data.data(), {static_cast<int64_t>(data.size())}, DType::kF32));
    }
    for (const Tensor& piece :
         reduce_scatter_coalesced(comm, tensors, ReduceOp::kAverage, rank.stream)) {
      auto& result = out[me].emplace_back();
      if (piece.defined()) result.assign(piece.data<float>(), piece.data<float>() + piece.numel());
    }
  });
  return Answer().add("out", out).text();
}

EstimateCluster cluster_of(const Json& input) {
  return {.devices_per_node = get<int64_t>(input, "num_gpus_per_node"),
          .nodes = get<int64_t>(input, "num_nodes"),
          .buffer_factor = get<double>(input, "additional_buffer_factor")};
}

OptimizerHome optimizer_home(const Json& input) {
  return get<bool>(input, "cpu_offload") ? OptimizerHome::kHost : OptimizerHome::kDevice;
}

std::string estimate2(const Json& input) {
  const auto e = estimate_stage2(get<int64_t>(input, "total_params"), optimizer_home(input),
                                 cluster_of(input));
  return Answer().add("cpu_mem", e.host_bytes).add("gpu_mem", e.device_bytes).text();
}

std::string estimate3(const Json& input) {
  const auto e = estimate_stage3(
      get<int64_t>(input, "total_params"), get<int64_t>(input, "largest_layer_params"),
      optimizer_home(input),
      get<bool>(input, "cpu_offload_params") ? ParameterHome::kHost : ParameterHome::kDevice,
      get<bool>(input, "zero_init") ? ModelInit::kPartitioned : ModelInit::kWhole,
      cluster_of(input));
  return Answer()
      .add("cpu_mem", e.host_bytes)
      .add("gpu_mem", e.device_bytes)
      .add("largest_layer_memory", e.largest_layer_bytes)
      .text();
}

std::string tp_shard(const Json& input) {
  const std::string name = get_or<std::string>(input, "name", "");
  const TensorShardRule rule{.layer = name,
                             .kv_heads = get_optional<int64_t>(input, "num_kv_heads"),
                             .grain = get<int64_t>(input, "grain")};
  return Answer()
      .add("sizes", tensor_shard_sizes(get<int64_t>(input, "total"), get<int>(input, "tp"), rule))
      .text();
}

std::string comm_bandwidth(const Json& input) {
  const Bandwidth b =
      collective_bandwidth(get<std::string>(input, "collective"), get<int64_t>(input, "size"),
                           get<double>(input, "duration"), get<int>(input, "world_size"));
  return Answer().add("algbw", b.algorithm).add("busbw", b.bus).text();
}

}  // namespace

std::string partition(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "uniform") {
    return Answer()
        .add("parts",
             partition_uniform(get<int64_t>(input, "num_items"), get<int>(input, "num_parts")))
        .text();
  }
  if (op == "layers") return layers(input);
  if (op == "tensor") {
    const auto p = partition_tensor(list<int64_t>(need(input, "shape")),
                                    get<int>(input, "world_size"), get<int>(input, "rank"));
    return Answer().add("start", p.start).add("length", p.numel).add("meta", p.meta).text();
  }
  const std::vector<double> weights = list<double>(need(input, "weights"));
  if (op == "prefix_sum") return Answer().add("sums", prefix_sums(weights)).text();
  return Answer().add("parts", partition_balanced(weights, get<int>(input, "num_parts"))).text();
}

std::string zero_partition(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "stage12") return stage12(input);
  if (op == "stage3") {
    const auto p = partition_parameter(get<int64_t>(input, "numel"), get<int>(input, "world_size"));
    return Answer().add("partition_numel", p.partition_numel).add("padding", p.padding).text();
  }
  if (op == "reduce_scatter") return reduce_scatter(input);
  if (op == "estimate2") return estimate2(input);
  if (op == "estimate3") return estimate3(input);
  if (op == "tp_shard") return tp_shard(input);
  if (op == "comm_bandwidth") return comm_bandwidth(input);
  if (op == "convert_size")
    return Answer().add("text", size_text(get<double>(input, "bytes"))).text();
  return Answer()
      .add("mean", trimmed_mean(list<double>(need(input, "data")), get<double>(input, "percent")))
      .text();
}

}  // namespace ds::conform
