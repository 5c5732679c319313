// How the mesh of a plan is told: for a person, and as JSON (pure).
#pragma once

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <string>

#include "comm/mesh_layout.h"

namespace ds {

// "data 2 x sequence 4 (ulysses 2 x ring 2)": the axes along which ranks are numbered and lie, and
// how rings and trades share that of the sequence. Data is named even where it is 1.
std::string mesh_words(const MeshSizes& sizes);

// {"pipe": 1, "data": 2, "sequence": 4, "ring": 2, "tensor": 1}
void write_mesh(rapidjson::PrettyWriter<rapidjson::StringBuffer>& out, const MeshSizes& sizes);

}  // namespace ds
