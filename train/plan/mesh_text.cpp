#include "train/plan/mesh_text.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace ds {
namespace {

// " (ulysses 2 x ring 2)"; empty where there are no rings, and heads are exchanged.
std::string ring_words(const MeshLayout& mesh) {
  const int trading = mesh.size(Axis::kUlysses), ring = mesh.size(Axis::kRing);
  if (ring == 1) return "";
  if (trading == 1) return fmt::format(" (ring {})", ring);
  return fmt::format(" (ulysses {} x ring {})", trading, ring);
}

}  // namespace

std::string mesh_words(const MeshSizes& sizes) {
  const MeshLayout mesh(sizes);
  std::vector<std::string> parts;
  for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kSequence, Axis::kTensor}) {
    if (axis != Axis::kData && mesh.size(axis) == 1) continue;
    parts.push_back(fmt::format("{} {}{}", to_string(axis), mesh.size(axis),
                                axis == Axis::kSequence ? ring_words(mesh) : ""));
  }
  return fmt::format("{}", fmt::join(parts, " x "));
}

void write_mesh(rapidjson::PrettyWriter<rapidjson::StringBuffer>& out, const MeshSizes& sizes) {
  const MeshLayout mesh(sizes);
  out.StartObject();
  for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kSequence, Axis::kRing, Axis::kTensor}) {
    out.Key(std::string(to_string(axis)).c_str());
    out.Int(mesh.size(axis));
  }
  out.EndObject();
}

}  // namespace ds
