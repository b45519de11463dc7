"""A step of FE-Net as a few fused kernels in Triton, for GPUs. The torch path of `fe_net.py` defines what they compute.

| file | what it holds |
|---|---|
| `fused_step.py` | which batches the kernels take, and one step of the network |
| `fused_trial.py` | whether the kernels compile on this machine and agree with torch |
| `fused_trial.py` | whether the kernels compile on this machine and agree with torch |
| `kernel_calls.py` | the four parts of a step as functions with gradients |
| `packed_weights.py` | the weights in the order of the kernels |
| `fused_nodes.py`, `fused_pairs.py`, `loop_kernels.py`, `update_kernels.py`, `update_gradients.py` | the kernels |

Only `kernel_calls.py` and the kernels import Triton, and `fused_step.py` imports them when a batch can use them.
"""
