// The mesh as arithmetic.
#include "comm/mesh_layout.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds {

std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::kPipe:
      return "pipe";
    case Axis::kData:
      return "data";
    case Axis::kSequence:
      return "sequence";
    case Axis::kTensor:
      return "tensor";
    case Axis::kDataSequence:
      return "data_sequence";
    case Axis::kExpert:
      return "expert";
    case Axis::kExpertData:
      return "expert_data";
    case Axis::kShard:
      return "shard";
    case Axis::kReplica:
      return "replica";
    case Axis::kKeyReplica:
      return "key_replica";
    case Axis::kUlysses:
      return "ulysses";
    case Axis::kRing:
      return "ring";
    case Axis::kWorld:
      return "world";
  }
  return "?";
}

MeshSizes mesh_sizes(int world_size, MeshSizes wanted) {
  wanted.data = 1;
  const MeshLayout checked(
      MeshSizes{.pipe = wanted.pipe, .sequence = wanted.sequence, .tensor = wanted.tensor});
  const int inner = checked.world_size();
  if (world_size < 1 || world_size % inner != 0) {
    throw ConfigError(
        fmt::format("mesh: {} ranks are not a multiple of pipe {} * sequence {} * tensor {}; "
                    "change the sizes or the ranks",
                    world_size, wanted.pipe, wanted.sequence, wanted.tensor));
  }
  wanted.data = world_size / inner;
  return MeshLayout(wanted).sizes();
}

MeshLayout::MeshLayout(const MeshSizes& sizes) : sizes_(sizes) {
  constexpr int64_t kMaxRanks = 1 << 24;
  int64_t world = 1;
  for (const int size : {sizes.pipe, sizes.data, sizes.sequence, sizes.tensor}) {
    if (size < 1)
      throw ConfigError(fmt::format("mesh: an axis has size {}, expected 1 or more", size));
    world *= size;
    if (world > kMaxRanks) throw ConfigError(fmt::format("mesh: more than {} ranks", kMaxRanks));
  }
  const auto check_part = [](std::string_view name, int size, std::string_view axis, int whole) {
    if (size >= 1 && whole % size == 0) return;
    throw ConfigError(
        fmt::format("mesh: {} size {} does not divide the {} size {}", name, size, axis, whole));
  };
  check_part("expert", sizes.expert, "data", sizes.data);
  check_part("shard", sizes.shard, "data", sizes.data);
  check_part("ring", sizes.ring, "sequence", sizes.sequence);
  DS_CHECK(sizes.key_replicas >= 1 && sizes.tensor % sizes.key_replicas == 0,
           "mesh: {} ranks with the same keys, which do not divide the tensor size {}",
           sizes.key_replicas, sizes.tensor);
}

int MeshLayout::world_size() const {
  return sizes_.pipe * sizes_.data * sizes_.sequence * sizes_.tensor;
}

int MeshLayout::size(Axis axis) const {
  switch (axis) {
    case Axis::kPipe:
      return sizes_.pipe;
    case Axis::kData:
      return sizes_.data;
    case Axis::kSequence:
      return sizes_.sequence;
    case Axis::kTensor:
      return sizes_.tensor;
    case Axis::kDataSequence:
      return sizes_.data * sizes_.sequence;
    case Axis::kExpert:
      return sizes_.expert;
    case Axis::kExpertData:
      return sizes_.data / sizes_.expert;
    case Axis::kShard:
      return sizes_.shard;
    case Axis::kReplica:
      return sizes_.data / sizes_.shard;
    case Axis::kKeyReplica:
      return sizes_.key_replicas;
    case Axis::kUlysses:
      return sizes_.sequence / sizes_.ring;
    case Axis::kRing:
      return sizes_.ring;
    case Axis::kWorld:
      return world_size();
  }
  return 1;
}

int MeshLayout::rank_at(int pipe, int data, int sequence, int tensor) const {
  return ((pipe * sizes_.data + data) * sizes_.sequence + sequence) * sizes_.tensor + tensor;
}

int MeshLayout::expert_of(int data) const {
  return sizes_.order == ExpertOrder::kExpertFirst ? data % sizes_.expert
                                                   : data / size(Axis::kExpertData);
}

int MeshLayout::expert_data_of(int data) const {
  return sizes_.order == ExpertOrder::kExpertFirst ? data / sizes_.expert
                                                   : data % size(Axis::kExpertData);
}

int MeshLayout::data_at(int expert_data, int expert) const {
  return sizes_.order == ExpertOrder::kExpertFirst ? expert_data * sizes_.expert + expert
                                                   : expert * size(Axis::kExpertData) + expert_data;
}

int MeshLayout::coordinate(int rank, Axis axis) const {
  DS_CHECK(rank >= 0 && rank < world_size(), "mesh: rank {} is outside 0..{}", rank,
           world_size() - 1);
  const int tensor = rank % sizes_.tensor;
  const int sequence = rank / sizes_.tensor % sizes_.sequence;
  const int data = rank / (sizes_.tensor * sizes_.sequence) % sizes_.data;
  switch (axis) {
    case Axis::kPipe:
      return rank / (sizes_.tensor * sizes_.sequence * sizes_.data);
    case Axis::kData:
      return data;
    case Axis::kSequence:
      return sequence;
    case Axis::kTensor:
      return tensor;
    case Axis::kDataSequence:
      return data * sizes_.sequence + sequence;
    case Axis::kExpert:
      return expert_of(data);
    case Axis::kExpertData:
      return expert_data_of(data);
    case Axis::kShard:
      return data % sizes_.shard;
    case Axis::kReplica:
      return data / sizes_.shard;
    case Axis::kKeyReplica:
      return tensor % sizes_.key_replicas;
    case Axis::kUlysses:
      return sequence % size(Axis::kUlysses);
    case Axis::kRing:
      return sequence / size(Axis::kUlysses);
    case Axis::kWorld:
      return rank;
  }
  return 0;
}

int MeshLayout::neighbour(int rank, Axis axis, int coordinate) const {
  DS_CHECK(coordinate >= 0 && coordinate < size(axis), "mesh: {} {} is outside 0..{}",
           to_string(axis), coordinate, size(axis) - 1);
  int pipe = this->coordinate(rank, Axis::kPipe);
  int data = this->coordinate(rank, Axis::kData);
  int sequence = this->coordinate(rank, Axis::kSequence);
  int tensor = this->coordinate(rank, Axis::kTensor);
  switch (axis) {
    case Axis::kPipe:
      pipe = coordinate;
      break;
    case Axis::kData:
      data = coordinate;
      break;
    case Axis::kSequence:
      sequence = coordinate;
      break;
    case Axis::kTensor:
      tensor = coordinate;
      break;
    case Axis::kDataSequence:
      data = coordinate / sizes_.sequence;
      sequence = coordinate % sizes_.sequence;
      break;
    case Axis::kExpert:
      data = data_at(expert_data_of(data), coordinate);
      break;
    case Axis::kExpertData:
      data = data_at(coordinate, expert_of(data));
      break;
    case Axis::kShard:
      data = data / sizes_.shard * sizes_.shard + coordinate;
      break;
    case Axis::kReplica:
      data = coordinate * sizes_.shard + data % sizes_.shard;
      break;
    case Axis::kKeyReplica:
      tensor = tensor / sizes_.key_replicas * sizes_.key_replicas + coordinate;
      break;
    case Axis::kUlysses:
      sequence += coordinate - sequence % size(Axis::kUlysses);
      break;
    case Axis::kRing:
      sequence = coordinate * size(Axis::kUlysses) + sequence % size(Axis::kUlysses);
      break;
    case Axis::kWorld:
      return coordinate;
  }
  return rank_at(pipe, data, sequence, tensor);
}

std::vector<int> MeshLayout::peers(int rank, Axis axis) const {
  std::vector<int> result;
  for (int at = 0; at < size(axis); ++at) result.push_back(neighbour(rank, axis, at));
  return result;
}

std::vector<std::vector<int>> MeshLayout::groups(Axis axis) const {
  std::vector<std::vector<int>> result;
  for (int pipe = 0; pipe < sizes_.pipe; ++pipe) {
    for (int sequence = 0; sequence < sizes_.sequence; ++sequence) {
      for (int tensor = 0; tensor < sizes_.tensor; ++tensor) {
        for (int i = 0; i < sizes_.data; ++i) {
          const int data = data_at(i / sizes_.expert, i % sizes_.expert);
          const int rank = rank_at(pipe, data, sequence, tensor);
          if (coordinate(rank, axis) == 0) result.push_back(peers(rank, axis));
        }
      }
    }
  }
  return result;
}

double network_share(const MeshLayout& layout, int rank, Axis axis, int ranks_of_host) {
  DS_CHECK(ranks_of_host > 0, "mesh: {} ranks of a host, expected 1 or more", ranks_of_host);
  const std::vector<int> peers = layout.peers(rank, axis);
  const auto here = std::ranges::count_if(
      peers, [&](int peer) { return peer / ranks_of_host == rank / ranks_of_host; });
  if (here == std::ssize(peers)) return 0;
  return static_cast<double>(here) / ranks_of_host;
}

}  // namespace ds
