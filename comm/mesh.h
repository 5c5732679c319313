// Mesh: this rank's communicator along every axis. The arithmetic is comm/mesh_layout.h; here it
// meets a world of ranks, or, for the dry run, none.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/mesh_layout.h"
#include "core/index.h"

namespace ds {

class Mesh {
 public:
  // Wraps a group's communicator (traced, quantized, ...); may return its argument.
  using Decorate =
      std::function<std::unique_ptr<Communicator>(Axis, std::unique_ptr<Communicator>)>;

  // Collective over `world`, whose size the sizes must multiply to: one split per axis.
  static Mesh over(Communicator& world, const MeshSizes& sizes, const Decorate& decorate = {});
  // The mesh that rank `rank` would have, made of MetaComms.
  static Mesh meta(int rank, const MeshSizes& sizes, const Decorate& decorate = {});

  Communicator& group(Axis axis) { return *nth(groups_, axis); }
  int rank() const { return rank_; }
  int coordinate(Axis axis) const { return layout_.coordinate(rank_, axis); }
  int size(Axis axis) const { return layout_.size(axis); }
  const MeshLayout& layout() const { return layout_; }
  void abort() noexcept;  // every group

 private:
  Mesh(int rank, const MeshSizes& sizes) : rank_(rank), layout_(sizes) {}

  static constexpr size_t kAxes = 6;
  int rank_;
  MeshLayout layout_;
  std::array<std::unique_ptr<Communicator>, kAxes> groups_;
};

}  // namespace ds
