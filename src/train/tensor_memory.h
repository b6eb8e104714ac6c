// Memory of tensors on the CPU, kept from one step to the next.
#pragma once

namespace tern {

// From now on LibTorch takes the memory of large CPU tensors from blocks that are kept when a
// tensor goes, instead of giving it back to the kernel: that would hand out new pages of zeros at
// every step, an eighth of a ResNet's time. What is kept and used together exceeds the most that
// was used at once by a quarter at most. Changes no result. Call it once, before the first tensor.
void keep_tensor_memory();

}  // namespace tern
