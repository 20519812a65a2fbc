"""What is measured on a GPU, and what it takes to train at its speed (`-m benchmarks.gpu`)."""
