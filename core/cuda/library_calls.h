// What who calls the libraries of GPUs (core/libraries) asks for beside a queue's native().
#pragma once

#include "core/cuda/queue.h"

namespace ds {

// Libraries that ask the runtime which device a call is for are told this one, by this thread.
void use_device(Device device);

}  // namespace ds
