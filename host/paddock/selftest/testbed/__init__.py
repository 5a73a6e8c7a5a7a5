"""What attacks are aimed at: services, files and processes that notice what is done to them."""
