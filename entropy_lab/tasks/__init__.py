"""What is asked, how an answer is graded, which family it belongs to."""
