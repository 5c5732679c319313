// The mesh as arithmetic (pure): which axis a rank has which coordinate on, and with whom it shares
// a group. Ranks are numbered with pipe slowest, then data, then sequence, tensor fastest, so that
// the axes that talk most are neighbours. Data and sequence together are one more axis; expert and
// expert-data split the data axis, and so do shard and replica, in another way; neighbours in
// tensor that have the same heads of keys and values are an axis, too. Sequence is split by ulysses
// and ring. comm/mesh.h makes communicators out of it.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace ds {

enum class Axis {
  kPipe,
  kData,
  kSequence,
  kTensor,
  kDataSequence,  // data x sequence: ranks with the same weights, that see other tokens
  kExpert,
  kExpertData,
  kShard,       // neighbours in data, that share out what the whole axis could share out
  kReplica,     // ranks in the same place of such groups
  kKeyReplica,  // neighbours in tensor with the same keys and values
  kUlysses,     // neighbours in sequence, that exchange heads
  kRing,        // ranks in the same place of such groups, round which keys and values go
  kWorld        // all of them
};
inline constexpr std::array kAllAxes{
    Axis::kPipe,    Axis::kData,       Axis::kSequence, Axis::kTensor,  Axis::kDataSequence,
    Axis::kExpert,  Axis::kExpertData, Axis::kShard,    Axis::kReplica, Axis::kKeyReplica,
    Axis::kUlysses, Axis::kRing,       Axis::kWorld};
std::string_view to_string(Axis axis);

// How the data axis splits: neighbours in data are different experts (E + D), or copies of one
// expert (D + E).
enum class ExpertOrder { kExpertFirst, kDataFirst };

struct MeshSizes {
  int pipe = 1;
  int data = 1;  // all ranks that see different samples, expert ones included
  int sequence = 1;
  int tensor = 1;
  int expert = 1;        // divides data
  int shard = 1;         // divides data
  int ring = 1;          // divides sequence; 1: heads are exchanged among all that share a sample
  int key_replicas = 1;  // divides tensor; by the model (model/exchange/tensor.h)
  ExpertOrder order = ExpertOrder::kExpertFirst;
};

// Sizes for a world: what pipe, sequence and tensor leave over is data. Throws ConfigError when
// they do not divide the world, or when `expert` does not divide what is left.
MeshSizes mesh_sizes(int world_size, MeshSizes wanted);

class MeshLayout {
 public:
  // Throws ConfigError for sizes below 1, or an expert or shard size that does not divide the data
  // size; InternalError for key_replicas that do not divide the tensor size.
  explicit MeshLayout(const MeshSizes& sizes);

  int world_size() const;
  // kExpertData: data / expert; kReplica: data / shard; kUlysses: sequence / ring.
  int size(Axis axis) const;
  int coordinate(int rank, Axis axis) const;

  // The ranks of this rank's group along `axis`, by ascending coordinate (the rank itself
  // included).
  std::vector<int> peers(int rank, Axis axis) const;
  // kDataSequence, or kData where that is the same: over it weights are shared out, and gradients
  // summed.
  Axis token_axis() const { return sizes_.sequence > 1 ? Axis::kDataSequence : Axis::kData; }
  // Over which the sums of a step are made: that of the tokens, or kWorld where ranks have other
  // weights, whose squares count.
  Axis sums_axis() const {
    return size(token_axis()) == world_size() ? token_axis() : Axis::kWorld;
  }
  // Every group along `axis`, once: by pipe, sequence, tensor, then what is left of the data axis.
  std::vector<std::vector<int>> groups(Axis axis) const;
  // The rank with the same coordinates but this one.
  int neighbour(int rank, Axis axis, int coordinate) const;

  const MeshSizes& sizes() const { return sizes_; }

 private:
  int rank_at(int pipe, int data, int sequence, int tensor) const;
  int expert_of(int data) const;
  int expert_data_of(int data) const;
  int data_at(int expert_data, int expert) const;

  MeshSizes sizes_;
};

// What of its host's network the rank's group along `axis` has, where every host has so many ranks
// that follow each other; 0: the group stays in one host. A group goes round in a ring that leaves
// each host once, so those that the ranks of a host are in share what leaves it.
double network_share(const MeshLayout& layout, int rank, Axis axis, int ranks_of_host);

}  // namespace ds
