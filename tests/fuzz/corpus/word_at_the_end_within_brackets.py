import triton

x = (1,
y 	