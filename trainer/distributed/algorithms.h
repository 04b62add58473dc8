// Chooses between the algorithms by which LibTorch and CUDA's libraries can compute the same result.
#pragma once

namespace dtrain::distributed {

// `deterministic`: the same computation gives the same bits each time, on the same kind of GPU with the same libraries.
// Otherwise some algorithms add numbers in the order in which threads arrive. cuDNN takes its own first choice in
// either case; timing several was no faster in training. Applies to the whole process. To be called before anything is
// computed on a GPU, because cuBLAS then reads the environment variable that this sets.
void ChooseAlgorithms(bool deterministic);

}  // namespace dtrain::distributed
