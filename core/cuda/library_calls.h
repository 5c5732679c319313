// What who calls the libraries of GPUs (core/libraries) asks for beside a queue's native().
#pragma once

#include <string>

#include "core/cuda/queue.h"

namespace ds {

// Libraries that ask the runtime which device a call is for are told this one, by this thread.
void use_device(Device device);

// Tells it from all other devices of this machine, in every process that sees it: a GPU's UUID.
std::string unique_name(Device device);
std::string model_name(Device device);  // "NVIDIA H200"

}  // namespace ds
