// Mesh: this rank's communicator along every axis. The arithmetic is comm/mesh_layout.h; here it
// meets a world of ranks, or, for the dry run, none.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "comm/contract/communicator.h"
#include "comm/mesh_layout.h"
#include "core/values/index.h"

namespace ds {

class Mesh {
 public:
  // Wraps a group's communicator (traced, quantized, ...), which outlives the wrapping; null leaves
  // it as it is.
  using Decorate = std::function<std::unique_ptr<Communicator>(Axis, Communicator&)>;

  // Collective over `world`, whose size the sizes must multiply to and which must outlive the mesh.
  // An axis along which the whole world lies has the world itself for its group, one of a single
  // rank needs no peers, and one with the ranks of another axis shares its group; each of the
  // others is split off. The two more of a pipe axis are decorated as it is.
  static Mesh over(Communicator& world, const MeshSizes& sizes, const Decorate& decorate = {});
  // The mesh that rank `rank` would have, made of MetaComms.
  static Mesh meta(int rank, const MeshSizes& sizes, const Decorate& decorate = {});

  Communicator& group(Axis axis) { return *nth(groups_, axis).used; }
  // The pipe axis once more, for gradients: schedules receive an activation and a gradient of one
  // rank in another order than it sends them. Null where there is one stage.
  Communicator* pipe_gradients() { return pipe_gradients_.used; }
  // The first stage and the last one; null on those between.
  Communicator* pipe_ends() { return pipe_ends_.used; }
  int rank() const { return rank_; }
  int coordinate(Axis axis) const { return layout_.coordinate(rank_, axis); }
  int size(Axis axis) const { return layout_.size(axis); }
  const MeshLayout& layout() const { return layout_; }
  void abort() noexcept;  // every group
  void check();           // every group

 private:
  struct Group {
    std::unique_ptr<Communicator> own{};  // null: the world's, or another axis's
    std::unique_ptr<Communicator> decoration{};
    Communicator* bare = nullptr;
    Communicator* used = nullptr;
  };

  Mesh(int rank, const MeshSizes& sizes) : rank_(rank), layout_(sizes) {}
  static Group finished(Axis axis, Group group, const Decorate& decorate);
  void split_pipe(Communicator& world, const Decorate& decorate);
  template <class Use>
  void each(const Use& use);

  int rank_;
  MeshLayout layout_;
  std::array<Group, kAllAxes.size()> groups_;
  Group pipe_gradients_, pipe_ends_;
};

}  // namespace ds
